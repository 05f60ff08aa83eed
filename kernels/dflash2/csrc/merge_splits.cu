// Merges the splits of decode attention, for sm_70:
//
//   output[row] = sum_s w_s * partial_output[s][row] / sum_s w_s * sum_s[row],   w_s = exp2((max_s - max) * scale_log2)
//
// row = token * query_heads + head. A split that saw no key has max_s = -inf and an output that was never written.
//
// Launch: grid (query_heads, tokens, HEAD_DIM / DIMS), DIMS threads, no shared memory. A row is all latency. So a warp
// takes 32 head dims, four a lane, and deals the splits to kGroups groups of eight lanes; a thread issues its loads of
// kInFlight splits before it needs one, and the groups meet by shuffles, with no barrier.
#include "arguments.cuh"

constexpr int kRow = HEAD_DIM / 4;  // float4s of a row
constexpr int kGroups = 4, kGroupLanes = kWarpSize / kGroups;
constexpr int kInFlight = 5;  // 4 groups x 5 splits: one round for the usual 20 splits
static_assert(DIMS % 32 == 0 && HEAD_DIM % DIMS == 0, "a warp takes 32 head dims, and blocks are equal");

template <class Combine>
DEVICE float reduce_over_groups(float value, Combine combine) {
#pragma unroll
  for (int flip = kGroupLanes; flip < kWarpSize; flip *= 2)
    value = combine(value, __shfl_xor_sync(kAllLanes, value, flip));
  return value;
}
DEVICE float add(float a, float b) { return a + b; }
DEVICE float larger(float a, float b) { return fmaxf(a, b); }

// What a thread's splits add up to, relative to `maximum`, which all groups share.
struct Total {
  float4 output;
  float maximum, sum;
};

// The splits of one round: first, first + kGroups, ...
struct Round {
  float4 output[kInFlight];
  float2 statistic[kInFlight];  // (-inf, 0) for an empty split
};

// An index past the last split reads the last and counts as empty. Outputs do not wait for statistics.
DEVICE void load_round(Round& round, const MergeArguments& args, int first, u32 row, u32 lane) {
  const float2* statistics = reinterpret_cast<const float2*>(args.partial_statistic);
  const float4* outputs = reinterpret_cast<const float4*>(args.partial_output);
#pragma unroll
  for (int i = 0; i < kInFlight; i++) {
    const u32 index = min(first + i * kGroups, args.split_count - 1) * args.row_count + row;
    round.output[i] = __ldg(outputs + (index * kRow + lane));
    round.statistic[i] = __ldg(statistics + index);
  }
#pragma unroll
  for (int i = 0; i < kInFlight; i++)
    if (first + i * kGroups >= args.split_count) round.statistic[i] = make_float2(minus_infinity(), 0.f);
}

// total = total and the round together; an empty split has weight 0 and an output that may be NaN.
DEVICE void add_round(Total& total, const Round& round, float scale_log2) {
  float maximum = total.maximum;
#pragma unroll
  for (int i = 0; i < kInFlight; i++) maximum = fmaxf(maximum, round.statistic[i].x);
  maximum = reduce_over_groups(maximum, larger);  // of a row that has keys, so finite after the first round
  const float decay = exp2_approx((total.maximum - maximum) * scale_log2);
  total = {make_float4(total.output.x * decay, total.output.y * decay, total.output.z * decay, total.output.w * decay),
           maximum, total.sum * decay};
#pragma unroll
  for (int i = 0; i < kInFlight; i++) {
    const bool is_empty = round.statistic[i].x == minus_infinity();
    const float weight = is_empty ? 0.f : exp2_approx((round.statistic[i].x - maximum) * scale_log2);
    const float4& o = round.output[i];
    total.sum += weight * round.statistic[i].y;
    total.output.x += is_empty ? 0.f : weight * o.x;
    total.output.y += is_empty ? 0.f : weight * o.y;
    total.output.z += is_empty ? 0.f : weight * o.z;
    total.output.w += is_empty ? 0.f : weight * o.w;
  }
}

extern "C" __global__ void __launch_bounds__(DIMS, 1) ENTRY_POINT(MergeArguments args) {
  const u32 row = blockIdx.y * gridDim.x + blockIdx.x;
  const int group = threadIdx.x % kWarpSize / kGroupLanes;
  const u32 lane = (blockIdx.z * DIMS + threadIdx.x / kWarpSize * kWarpSize) / 4 + threadIdx.x % kGroupLanes;  // float4
  Total total = {make_float4(0.f, 0.f, 0.f, 0.f), minus_infinity(), 0.f};
  for (int first = 0; first < args.split_count; first += kGroups * kInFlight) {
    Round round;
    load_round(round, args, first + group, row, lane);
    add_round(total, round, args.scale_log2);
  }
  const float sum = reduce_over_groups(total.sum, add), inverse = sum > 0.f ? reciprocal_approx(sum) : 0.f;
  const float4& o = total.output;
  const float4 merged = make_float4(reduce_over_groups(o.x, add), reduce_over_groups(o.y, add),
                                    reduce_over_groups(o.z, add), reduce_over_groups(o.w, add));
  if (group > 0) return;
  half_bits* target = args.output + (u64)blockIdx.y * args.output_token_stride + blockIdx.x * HEAD_DIM + lane * 4;
  *reinterpret_cast<uint2*>(target) = pack_four(merged, inverse);
}
