// How the four warps of a decode block add up: statistics and outputs meet in shared memory, then leave for global
// memory.
#pragma once

#include "decode_tile.cuh"

// Where the warps leave the maximum and sum of each column.
struct WarpStatistics {
  float* base;
  DEVICE float* maxima(int warp) const { return base + warp * Tile::columns; }
  DEVICE float* sums(int warp) const { return base + (Tile::warps + warp) * Tile::columns; }
};

DEVICE void publish_statistics(const WarpStatistics& statistics, const Softmax& softmax, int warp,
                               const LaneMap& lane) {
  if (lane.odd + lane.quad_pair + lane.half > 0) return;  // they hold copies
#pragma unroll
  for (int m = 0; m < Tile::column_tiles; m++) {
#pragma unroll
    for (int x = 0; x < 4; x++)
      statistics.maxima(warp)[8 * m + accumulator_column(lane, element_of(x))] = softmax.maximum[m][x];
    const float (&sum)[8] = softmax.sum[m];
    store_float4(statistics.sums(warp) + 8 * m + output_column(lane, 0), make_float4(sum[0], sum[1], sum[4], sum[5]));
  }
}

// The maximum and sum over all warps of two neighbouring columns, and what each warp's outputs of them must be
// multiplied by to be relative to that maximum.
struct BlockStatistics {
  float2 maximum, sum, factor[Tile::warps];
};

DEVICE void combine_statistics(BlockStatistics& all, const WarpStatistics& statistics, int column, float scale_log2) {
  float2 maximum[Tile::warps], sum[Tile::warps];
#pragma unroll
  for (int warp = 0; warp < Tile::warps; warp++) {
    maximum[warp] = load_float2(statistics.maxima(warp) + column);
    sum[warp] = load_float2(statistics.sums(warp) + column);
  }
  all.maximum = maximum[0];
#pragma unroll
  for (int warp = 1; warp < Tile::warps; warp++) {
    all.maximum.x = fmaxf(all.maximum.x, maximum[warp].x);
    all.maximum.y = fmaxf(all.maximum.y, maximum[warp].y);
  }
  const float reference_x = all.maximum.x == minus_infinity() ? 0.f : all.maximum.x;
  const float reference_y = all.maximum.y == minus_infinity() ? 0.f : all.maximum.y;
  all.sum = make_float2(0.f, 0.f);
#pragma unroll
  for (int warp = 0; warp < Tile::warps; warp++) {
    float2& factor = all.factor[warp];
    factor.x = exp2_approx((maximum[warp].x - reference_x) * scale_log2);
    factor.y = exp2_approx((maximum[warp].y - reference_y) * scale_log2);
    all.sum.x += sum[warp].x * factor.x;
    all.sum.y += sum[warp].y * factor.y;
  }
}

// A warp's outputs pass through shared memory as [warp][quad][lane], which no access of this exchange makes collide.
// Quad q holds elements 4 * (q & 1) + 0..3 of tile q / 2: columns y, y + 1 at a dim, then the same columns at dim + 2,
// where y = 4 * pair + 2 * (q & 1). Warp w then sums quads w, w + 4, ...: always the same two columns.
constexpr int kQuadsAThread = Tile::quads / Tile::warps, kRoundQuadsAThread = kQuadsAThread / Tile::rounds;
static_assert(Tile::warps == 4, "a warp sums one quad of every 64 head dims");
static_assert(kQuadsAThread % Tile::rounds == 0, "rounds are equal");

DEVICE void publish_output(float4* exchange, const float (&output)[Tile::dim_pairs * 2][8], int round, int warp) {
#pragma unroll
  for (int q = 0; q < Tile::round_quads; q++) {
    const int quad = round * Tile::round_quads + q;
    const float* o = &output[quad / 2][4 * (quad & 1)];
    exchange[(warp * Tile::round_quads + q) * kWarpSize + threadIdx.x % kWarpSize] =
        make_float4(o[0], o[1], o[2], o[3]);
  }
}

DEVICE void add_warps(float4* total, const float4* exchange, const BlockStatistics& all) {
#pragma unroll
  for (int i = 0; i < kRoundQuadsAThread; i++) {
    total[i] = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
    for (int other = 0; other < Tile::warps; other++) {
      const float4 o = exchange[(other * Tile::round_quads + i * Tile::warps) * kWarpSize + threadIdx.x];
      total[i].x += all.factor[other].x * o.x;
      total[i].y += all.factor[other].y * o.y;
      total[i].z += all.factor[other].x * o.z;
      total[i].w += all.factor[other].y * o.w;
    }
  }
}

// Two lanes that differ in `odd` have dims {d, d + 2} and {d + 1, d + 3} of columns y and y + 1. They swap so that the
// even lane gets four dims of the first column and the odd lane of the second.
DEVICE float4 four_dims(const float4& total, const LaneMap& lane) {
  const float first = __shfl_xor_sync(kAllLanes, lane.odd ? total.x : total.y, 1);
  const float second = __shfl_xor_sync(kAllLanes, lane.odd ? total.z : total.w, 1);
  return lane.odd ? make_float4(first, total.y, second, total.w) : make_float4(total.x, first, total.z, second);
}

// Writes the split's statistics of one column: one lane of the two warps that sum it.
DEVICE void store_statistic(const BlockStatistics& all, const DecodeArguments& args, const Columns& columns, int column,
                            int warp, const LaneMap& lane) {
  if (warp >= 2 || lane.quad_pair + lane.half > 0 || !columns.exists(column)) return;
  const float maximum = lane.odd ? all.maximum.y : all.maximum.x, sum = lane.odd ? all.sum.y : all.sum.x;
  const u32 row = blockIdx.y * args.row_count + columns.row(column);
  reinterpret_cast<float2*>(args.partial_statistic)[row] = make_float2(maximum, sum);
}

// Writes one column tile of the block's outputs: normalised, or the split's part of them.
DEVICE void store_outputs(const float4 (&total)[kQuadsAThread], const BlockStatistics& all, const DecodeArguments& args,
                          const Columns& columns, int column, int warp, const LaneMap& lane) {
  float4 o[kQuadsAThread];
#pragma unroll
  for (int i = 0; i < kQuadsAThread; i++) o[i] = four_dims(total[i], lane);
  if (!columns.exists(column)) return;
  // Quad warp + 4 * i holds dims 64 * i + lane_dim + 0..3; head dim 96 ends half-way through its second.
  const int lane_dim = 16 * lane.quad_pair + 8 * lane.half + 4 * (warp / 2);
  const bool has_last = Tile::head_dim % 64 == 0 || 64 * (kQuadsAThread - 1) + lane_dim < Tile::head_dim;
  if (args.split_count > 1) {
    const u32 row = blockIdx.y * args.row_count + columns.row(column);
    float* partial = args.partial_output + (u64)row * Tile::head_dim + lane_dim;
#pragma unroll
    for (int i = 0; i < kQuadsAThread; i++)
      if (i + 1 < kQuadsAThread || has_last) store_float4(partial + 64 * i, o[i]);
  } else {
    const u64 token = columns.first_query + columns.token(column);
    half_bits* output =
        args.output + token * args.output_token_stride + columns.head(column) * Tile::head_dim + lane_dim;
    const float sum = lane.odd ? all.sum.y : all.sum.x, inverse = sum > 0.f ? reciprocal_approx(sum) : 0.f;
#pragma unroll
    for (int i = 0; i < kQuadsAThread; i++)
      if (i + 1 < kQuadsAThread || has_last) *reinterpret_cast<uint2*>(output + 64 * i) = pack_four(o[i], inverse);
  }
}

// Adds up the warps' outputs of column tile m and writes them.
DEVICE void combine_outputs(const float (&output)[Tile::dim_pairs * 2][8], const WarpStatistics& statistics,
                            float4* exchange, const DecodeArguments& args, const Columns& columns, int m, int warp,
                            const LaneMap& lane) {
  const int column = 8 * m + output_column(lane, 0) + 2 * (warp & 1);
  BlockStatistics all;
  float4 total[kQuadsAThread];
#pragma unroll
  for (int round = 0; round < Tile::rounds; round++) {
    if (m + round > 0) __syncthreads();  // the outputs of the round before have been read
    publish_output(exchange, output, round, warp);
    __syncthreads();
    if (round == 0) combine_statistics(all, statistics, column, args.scoring.scale_log2);
    if (round == 0 && args.split_count > 1) store_statistic(all, args, columns, column + lane.odd, warp, lane);
    add_warps(total + round * kRoundQuadsAThread, exchange, all);
  }
  store_outputs(total, all, args, columns, column + lane.odd, warp, lane);
}

// What a split leaves that has no keys: statistics by which the merge knows.
DEVICE void store_empty_split(const DecodeArguments& args, const Columns& columns) {
  float2* partial = reinterpret_cast<float2*>(args.partial_statistic) + (u64)blockIdx.y * args.row_count;
  if (threadIdx.x < Tile::columns && columns.exists(threadIdx.x))
    partial[columns.row(threadIdx.x)] = make_float2(minus_infinity(), 0.f);
}
