// Merges the splits of decode attention, for sm_70:
//
//   output[row] = sum_s w_s * partial_output[s][row] / sum_s w_s * sum_s[row],   w_s = exp2((max_s - max) * scale_log2)
//
// row = token * query_heads + head. A split that saw no key has max_s = -inf and an output that was never written.
//
// Launch: grid (rows), HEAD_DIM / 4 threads, no shared memory. Every thread reads the statistics of all splits.
#include "arguments.cuh"

constexpr int kSplitsInFlight = 8;  // loads issued before the first is used: one row is all latency

DEVICE float highest_maximum(const float2* statistic, int splits, int stride) {
  float highest = minus_infinity();
#pragma unroll 8
  for (int split = 0; split < splits; split++) highest = fmaxf(highest, __ldg(statistic + (u64)split * stride).x);
  return highest;
}

extern "C" __global__ void __launch_bounds__(HEAD_DIM / 4) ENTRY_POINT(MergeArguments args) {
  const int row = blockIdx.x, stride = args.row_count;
  const float2* statistic = reinterpret_cast<const float2*>(args.partial_statistic) + row;
  const float4* partial = reinterpret_cast<const float4*>(args.partial_output) + row * (HEAD_DIM / 4) + threadIdx.x;
  const float highest = highest_maximum(statistic, args.split_count, stride);
  float4 total = make_float4(0.f, 0.f, 0.f, 0.f);
  float sum = 0.f;
#pragma unroll kSplitsInFlight
  for (int split = 0; split < args.split_count; split++) {
    const float2 s = __ldg(statistic + (u64)split * stride);
    if (s.x == minus_infinity()) continue;
    const float weight = exp2_approx((s.x - highest) * args.scale_log2);
    const float4 value = __ldg(partial + (u64)split * stride * (HEAD_DIM / 4));
    sum += weight * s.y;
    total.x += weight * value.x;
    total.y += weight * value.y;
    total.z += weight * value.z;
    total.w += weight * value.w;
  }
  const float inverse = sum > 0.f ? reciprocal_approx(sum) : 0.f;
  uint2 packed;
  packed.x = pack_halves(to_half(total.x * inverse), to_half(total.y * inverse));
  packed.y = pack_halves(to_half(total.z * inverse), to_half(total.w * inverse));
  half_bits* target = args.output + (u64)(row / args.query_heads) * args.output_token_stride +
                      row % args.query_heads * HEAD_DIM + threadIdx.x * 4;
  *reinterpret_cast<uint2*>(target) = packed;
}
