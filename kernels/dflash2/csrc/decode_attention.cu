// Causal attention of 1 to 8 query tokens a sequence over a paged KV cache, for sm_70, split along the keys.
//
// Same formula as prefill_attention.cu. A block takes one split of the keys, one KV head and 8 * COLUMN_TILES query rows
// ("columns": token * group_size + head of the group, they become the columns of the products) and reads every key and
// value of its split once. With several splits it writes partial results for merge_splits.cu, else the output itself.
//
// Launch: grid (splits, KV heads * ceil(columns / block columns), sequences), 32 * WARPS threads, SHARED_BYTES dynamic
// shared memory: Q tile [columns][head_dim] FP16 swizzled, later the warps' outputs; behind both the warps' statistics.
//
// A warp walks its own share of the keys in tiles of up to 32:
//
//   S^T = K Q^T   (row.col): quad-pairs along keys, so lane l feeds key 8 * quad_pair + feed
//   O^T = V^T P^T (col.row): quad-pairs along the head dim, so a 128-bit load a lane covers 4 keys x 64 dims
//
// K and V go from global memory straight to registers: there is nothing to share between warps. The memory system is
// the limit, so a share is cut into equal tiles (26 + 26 keys, not 32 + 20): all warps then finish together.
#include "arguments.cuh"

struct Tile {
  static constexpr int head_dim = HEAD_DIM, column_tiles = COLUMN_TILES, warps = WARPS;
  static constexpr int threads = 32 * warps, columns = 8 * column_tiles, keys = 32;
  static constexpr int chunks = head_dim / kChunkHalves;
  static constexpr int batch = chunks % 8 == 0 ? 8 : 4;       // K chunks a lane keeps in flight: one or half a cache line
  static constexpr int dim_pairs = (head_dim + 63) / 64;      // V chunks of a lane and key
  static constexpr int slots = dim_pairs * 2 * 8;             // output elements of a lane and column tile
  static constexpr int output_bytes = warps * kWarpSize * slots * 4, query_bytes = columns * head_dim * 2;
  static constexpr int statistics_at = output_bytes > query_bytes ? output_bytes : query_bytes;
};
constexpr int kFewestKeysASplit = 64;
static_assert(Tile::statistics_at + 2 * Tile::warps * Tile::columns * 4 == SHARED_BYTES, "tile of variants.py");
static_assert(SHARED_BYTES <= 98304, "the most shared memory a block can have on sm_70");

using Scores = float[Tile::column_tiles][8];
using Output = float[Tile::column_tiles][Tile::dim_pairs * 2][8];
using Probabilities = u32[Tile::column_tiles][2][2];  // [..][step][y] packs S^T elements 4 * y + 2 * step and the next

// Statistic x of a lane belongs to elements i = 4 * (x >> 1) + (x & 1) and i + 2 of S^T: to accumulator_column(i).
struct Softmax {
  float maximum[Tile::column_tiles][4], sum[Tile::column_tiles][4];
};
DEVICE int element_of(int x) { return 4 * (x >> 1) + (x & 1); }
// Column of O^T element i in its tile: the shuffles of P permute the columns of S^T to this order.
DEVICE int output_column(const LaneMap& lane, int i) { return 4 * lane.pair + 2 * (i >> 2) + (i & 1); }
DEVICE int query_swizzle(int column) { return column & (Tile::chunks % 8 == 0 ? 7 : 3); }

// The query rows of a block, and the keys that any of them sees.
struct Columns {
  int first, group_size, query_heads, first_head, first_query, query_count, first_position;
  DEVICE int token(int column) const { return (first + column) / group_size; }
  DEVICE bool exists(int column) const { return token(column) < query_count; }
  DEVICE int head(int column) const { return first_head + (first + column) % group_size; }
  DEVICE int row(int column) const { return (first_query + token(column)) * query_heads + head(column); }
  DEVICE int position(int column) const { return first_position + min(token(column), query_count - 1); }
};

struct KeyRange {
  int begin, end;
};

DEVICE Columns load_columns(const DecodeArguments& args) {
  const int kv_heads = args.query_heads / args.group_size, kv_head = blockIdx.y % kv_heads;
  const int first_query = args.query_start[blockIdx.z], count = args.query_start[blockIdx.z + 1] - first_query;
  return {(int)(blockIdx.y / kv_heads) * Tile::columns, args.group_size, args.query_heads, kv_head * args.group_size,
          first_query, count, args.kv_length[blockIdx.z] - count};
}

// Keys of this block's split: every block of a (sequence, column block) cuts the same range into equal pieces.
DEVICE KeyRange split_range(const Columns& columns, int split, int split_count, int window) {
  const int begin = max(0, columns.position(0) - window + 1), end = columns.position(Tile::columns - 1) + 1;
  const int share = max((end - begin + split_count - 1) / split_count, kFewestKeysASplit);
  return {begin + split * share, min(end, begin + (split + 1) * share)};
}

DEVICE void load_query_tile(half_bits* tile, const DecodeArguments& args, const Columns& columns) {
  for (int index = threadIdx.x; index < Tile::columns * Tile::chunks; index += Tile::threads) {
    const int column = index / Tile::chunks, chunk = index % Tile::chunks;
    uint4 value = zero_chunk();
    if (columns.exists(column)) {
      const u64 token = columns.first_query + columns.token(column);
      value = load_chunk_global(args.query + token * args.query_token_stride + columns.head(column) * Tile::head_dim +
                                chunk * kChunkHalves);
    }
    store_chunk(tile + column * Tile::head_dim + (chunk ^ query_swizzle(column)) * kChunkHalves, value);
  }
}

DEVICE void load_key_batch(uint4 (&k)[Tile::batch], const half_bits* key, int first_chunk) {
#pragma unroll
  for (int c = 0; c < Tile::batch; c++) k[c] = load_chunk_global(key + (first_chunk + c) * kChunkHalves);
}

// S^T for the key of each lane; `k` holds the key's first batch of chunks.
DEVICE void multiply_scores(Scores& score, uint4 (&k)[Tile::batch], const half_bits* key, const half_bits* query,
                            const LaneMap& lane) {
#pragma unroll
  for (int m = 0; m < Tile::column_tiles; m++)
#pragma unroll
    for (int i = 0; i < 8; i++) score[m][i] = 0.f;
#pragma unroll
  for (int first = 0; first < Tile::chunks; first += Tile::batch) {
    if (first > 0) load_key_batch(k, key, first);
#pragma unroll
    for (int c = 0; c < Tile::batch; c++)
#pragma unroll
      for (int m = 0; m < Tile::column_tiles; m++) {
        const int column = 8 * m + lane.feed, chunk = (first + c) ^ query_swizzle(column);
        const uint4 q = load_chunk(query + column * Tile::head_dim + chunk * kChunkHalves);
        mma_row_col(score[m], k[c].x, k[c].y, q.x, q.y);
        mma_row_col(score[m], k[c].z, k[c].w, q.z, q.w);
      }
  }
}

template <class Combine>
DEVICE float reduce_over_keys(float value, Combine combine) {  // keys are spread over every lane bit but `pair`
  value = combine(value, __shfl_xor_sync(kAllLanes, value, 1));
  value = combine(value, __shfl_xor_sync(kAllLanes, value, 4));
  value = combine(value, __shfl_xor_sync(kAllLanes, value, 8));
  return combine(value, __shfl_xor_sync(kAllLanes, value, 16));
}

// Scores to probabilities relative to the new maximum; `decay` is what older sums and outputs must be multiplied by.
DEVICE void update_softmax(float (&score)[8], u32 (&p)[2][2], float (&maximum)[4], float (&sum)[4], float (&decay)[4],
                           float scale_log2) {
#pragma unroll
  for (int x = 0; x < 4; x++) {
    const int i = element_of(x);
    const float tile_maximum = reduce_over_keys(fmaxf(score[i], score[i + 2]), [](float a, float b) { return fmaxf(a, b); });
    const float highest = fmaxf(maximum[x], tile_maximum);
    const float reference = highest == minus_infinity() ? 0.f : highest;  // no visible key yet
    decay[x] = exp2_approx((maximum[x] - reference) * scale_log2);
    maximum[x] = highest;
    score[i] = exp2_approx((score[i] - reference) * scale_log2);
    score[i + 2] = exp2_approx((score[i + 2] - reference) * scale_log2);
    sum[x] *= decay[x];
  }
#pragma unroll
  for (int y = 0; y < 2; y++)
#pragma unroll
    for (int step = 0; step < 2; step++) {
      const int i = 4 * y + 2 * step;
      p[step][y] = pack_halves(to_half(score[i]), to_half(score[i + 1]));
      sum[2 * y] += low_half(p[step][y]);
      sum[2 * y + 1] += high_half(p[step][y]);
    }
}

// Brings a value a column from the lanes of S^T to those of O^T: factor[y] belongs to elements with
// 2 * (i >> 2) + (i & 1) == y. Half of the columns are the lane's own, the others its neighbour's (pair flipped).
DEVICE void move_to_output(float (&factor)[4], const float (&value)[4], const LaneMap& lane) {
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const float own = lane.pair ? value[2 + e] : value[e], give = lane.pair ? value[e] : value[2 + e];
    const float got = __shfl_xor_sync(kAllLanes, give, 2);
    factor[e] = lane.pair ? got : own;
    factor[2 + e] = lane.pair ? own : got;
  }
}

DEVICE void scale_output(float (&output)[Tile::dim_pairs * 2][8], const float (&factor)[4]) {
#pragma unroll
  for (int d = 0; d < Tile::dim_pairs * 2; d++)
#pragma unroll
    for (int i = 0; i < 8; i++) output[d][i] *= factor[2 * (i >> 2) + (i & 1)];
}

// O^T += V^T P^T. In product (key_block, step) a lane feeds key 8 * key_block + 2 * step + odd + 4 * pair, whose cache
// offset is known to the lane that read that key's K row.
DEVICE void accumulate_output(Output& output, const Probabilities& p, const half_bits* values, u32 key_offset,
                              const LaneMap& lane) {
  const int lane_chunk = 2 * lane.quad_pair + lane.half;
#pragma unroll
  for (int key_block = 0; key_block < 4; key_block++)
#pragma unroll
    for (int step = 0; step < 2; step++) {
      const int owner = (lane.odd + 2 * step) | (key_block << 2) | (lane.pair << 4);
      const half_bits* value = values + (u64)__shfl_sync(kAllLanes, key_offset, owner) * kChunkHalves;
      const int source = lane.odd | (lane.half << 1) | (key_block << 2) | (lane.pair << 4);
      u32 operand[Tile::column_tiles][2];
#pragma unroll
      for (int m = 0; m < Tile::column_tiles; m++)
#pragma unroll
        for (int y = 0; y < 2; y++) operand[m][y] = __shfl_sync(kAllLanes, p[m][step][y], source);
#pragma unroll
      for (int d = 0; d < Tile::dim_pairs; d++) {
        const int chunk = 8 * d + lane_chunk;
        const uint4 v = 8 * d + 8 <= Tile::chunks || chunk < Tile::chunks ? load_chunk_global(value + chunk * kChunkHalves)
                                                                          : zero_chunk();
#pragma unroll
        for (int m = 0; m < Tile::column_tiles; m++) {
          mma_col_row(output[m][2 * d], v.x, v.y, operand[m][0], operand[m][1]);
          mma_col_row(output[m][2 * d + 1], v.z, v.w, operand[m][0], operand[m][1]);
        }
      }
    }
}

// Walks the warp's share of the split.
DEVICE void attend(Output& output, Softmax& softmax, const DecodeArguments& args, const Columns& columns, KeyRange share,
                   const half_bits* query, int window, const LaneMap& lane) {
  const int* pages = args.cache.block_table + (u64)blockIdx.z * args.cache.block_table_stride;
  const u32 head_offset = columns.first_head / columns.group_size * args.cache.head_stride_chunks;
  const int count = share.end - share.begin, tiles = (count + Tile::keys - 1) / Tile::keys;
  const int tile_keys = tiles > 0 ? (count + tiles - 1) / tiles : 0;
  const int lane_key = 8 * lane.quad_pair + lane.feed;
  int position[Tile::column_tiles][4];
#pragma unroll
  for (int m = 0; m < Tile::column_tiles; m++)
#pragma unroll
    for (int x = 0; x < 4; x++) position[m][x] = columns.position(8 * m + accumulator_column(lane, element_of(x)));

  for (int first = share.begin; first < share.end; first += tile_keys) {
    const int end = min(first + tile_keys, share.end);
    // Lanes without a key of their own repeat the last one: its score is masked, its V has weight zero.
    const u32 offset = token_chunk(args.cache, pages, min(first + lane_key, end - 1)) + head_offset;
    const half_bits* key = args.cache.keys + (u64)offset * kChunkHalves;
    uint4 k[Tile::batch];
    load_key_batch(k, key, 0);
    Scores score;
    multiply_scores(score, k, key, query, lane);
    Probabilities p;
#pragma unroll
    for (int m = 0; m < Tile::column_tiles; m++) {
#pragma unroll
      for (int i = 0; i < 8; i++) {
        if (args.scoring.softcap_inner != 0.f) score[m][i] = tanh_approx(score[m][i] * args.scoring.softcap_inner);
        const int token = first + 8 * lane.quad_pair + accumulator_row(lane, i);
        const int behind = position[m][2 * (i >> 2) + (i & 1)] - token;
        if (token >= end || behind < 0 || behind >= window) score[m][i] = minus_infinity();
      }
      float decay[4], factor[4];
      update_softmax(score[m], p[m], softmax.maximum[m], softmax.sum[m], decay, args.scoring.scale_log2);
      move_to_output(factor, decay, lane);
      scale_output(output[m], factor);
    }
    accumulate_output(output, p, args.cache.values, offset, lane);
  }
}

// Where a warp leaves the statistics of a column for the others.
struct WarpStatistics {
  float* base;
  DEVICE float& maximum(int warp, int column) const { return base[warp * Tile::columns + column]; }
  DEVICE float& sum(int warp, int column) const { return base[(Tile::warps + warp) * Tile::columns + column]; }
};

DEVICE void publish_statistics(const WarpStatistics& statistics, const Softmax& softmax, int warp, const LaneMap& lane) {
#pragma unroll
  for (int m = 0; m < Tile::column_tiles; m++)
#pragma unroll
    for (int x = 0; x < 4; x++) {
      const float sum = reduce_over_keys(softmax.sum[m][x], [](float a, float b) { return a + b; });
      const int column = 8 * m + accumulator_column(lane, element_of(x));
      if (lane.odd + lane.quad_pair + lane.half == 0) {
        statistics.maximum(warp, column) = softmax.maximum[m][x];
        statistics.sum(warp, column) = sum;
      }
    }
}

struct ColumnStatistic {
  float maximum, sum;
};

DEVICE ColumnStatistic combine_statistics(const WarpStatistics& statistics, int column, float scale_log2) {
  ColumnStatistic all = {minus_infinity(), 0.f};
#pragma unroll
  for (int warp = 0; warp < Tile::warps; warp++) all.maximum = fmaxf(all.maximum, statistics.maximum(warp, column));
  const float reference = all.maximum == minus_infinity() ? 0.f : all.maximum;
#pragma unroll
  for (int warp = 0; warp < Tile::warps; warp++)
    all.sum += statistics.sum(warp, column) * exp2_approx((statistics.maximum(warp, column) - reference) * scale_log2);
  return all;
}

// Writes one head-dim element of a column: the output itself, or the split's share of it.
DEVICE void store_element(const DecodeArguments& args, const Columns& columns, int column, int dim, float value,
                          float inverse_sum) {
  if (args.split_count > 1) {
    const u64 row = (u64)blockIdx.x * args.row_count + columns.row(column);
    args.partial_output[row * Tile::head_dim + dim] = value;
  } else {
    const u64 token = columns.first_query + columns.token(column);
    args.output[token * args.output_token_stride + columns.head(column) * Tile::head_dim + dim] =
        to_half(value * inverse_sum);
  }
}

// Adds up the warps' outputs of one column tile. They pass through shared memory as [warp][slot / 4][lane][slot % 4],
// which no access pattern of this exchange makes collide; a thread then sums slots of its own lane number.
DEVICE void combine_outputs(float (&output)[Tile::dim_pairs * 2][8], float4* exchange, const WarpStatistics& statistics,
                            const DecodeArguments& args, const Columns& columns, int first_column, int warp,
                            const LaneMap& lane) {
  constexpr int quads = Tile::slots / 4;
  const int lane_id = threadIdx.x % kWarpSize;
  float factor[4], inverse[4];
#pragma unroll
  for (int y = 0; y < 4; y++) {
    const int column = first_column + 4 * lane.pair + y;
    const ColumnStatistic all = combine_statistics(statistics, column, args.scoring.scale_log2);
    const float reference = all.maximum == minus_infinity() ? 0.f : all.maximum;
    factor[y] = exp2_approx((statistics.maximum(warp, column) - reference) * args.scoring.scale_log2);
    inverse[y] = all.sum > 0.f ? reciprocal_approx(all.sum) : 0.f;
  }
  scale_output(output, factor);
#pragma unroll
  for (int quad = 0; quad < quads; quad++) {
    const float* o = &output[quad / 2][4 * (quad & 1)];
    exchange[(warp * quads + quad) * kWarpSize + lane_id] = make_float4(o[0], o[1], o[2], o[3]);
  }
  __syncthreads();
  for (int quad = warp; quad < quads; quad += Tile::warps) {
    float4 total = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
    for (int other = 0; other < Tile::warps; other++) {
      const float4 o = exchange[(other * quads + quad) * kWarpSize + lane_id];
      total.x += o.x, total.y += o.y, total.z += o.z, total.w += o.w;
    }
    // Elements i = 4 * (quad & 1) + 0..3: columns y, y + 1 at dim, then the same columns at dim + 2.
    const int chunk = 8 * (quad / 4) + 2 * lane.quad_pair + lane.half, y = 2 * (quad & 1);
    const int dim = chunk * kChunkHalves + 4 * (quad / 2 % 2) + lane.odd, column = first_column + 4 * lane.pair + y;
    if (chunk >= Tile::chunks) continue;
    const float element[4] = {total.x, total.y, total.z, total.w};
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (columns.exists(column + (e & 1)))
        store_element(args, columns, column + (e & 1), dim + (e & 2), element[e], y ? inverse[2 + (e & 1)] : inverse[e & 1]);
  }
}

extern "C" __global__ void __launch_bounds__(Tile::threads, BLOCKS_PER_SM) ENTRY_POINT(DecodeArguments args) {
  DYNAMIC_SHARED(shared);
  half_bits* query = reinterpret_cast<half_bits*>(shared);
  const WarpStatistics statistics = {reinterpret_cast<float*>(shared + Tile::statistics_at)};
  const LaneMap lane = lane_map(threadIdx.x % kWarpSize);
  const int warp = threadIdx.x / kWarpSize, split = blockIdx.x;
  const int window = args.scoring.window > 0 ? args.scoring.window : 0x7fffffff;
  const Columns columns = load_columns(args);
  if (!columns.exists(0)) return;
  const KeyRange range = split_range(columns, split, args.split_count, window);
  float2* partial = reinterpret_cast<float2*>(args.partial_statistic) + (u64)split * args.row_count;
  if (range.begin >= range.end) {
    if (threadIdx.x < Tile::columns && columns.exists(threadIdx.x))
      partial[columns.row(threadIdx.x)] = make_float2(minus_infinity(), 0.f);
    return;
  }
  load_query_tile(query, args, columns);

  Output output;
  Softmax softmax;
#pragma unroll
  for (int m = 0; m < Tile::column_tiles; m++) {
#pragma unroll
    for (int d = 0; d < Tile::dim_pairs * 2; d++)
#pragma unroll
      for (int i = 0; i < 8; i++) output[m][d][i] = 0.f;
#pragma unroll
    for (int x = 0; x < 4; x++) {
      softmax.maximum[m][x] = minus_infinity();
      softmax.sum[m][x] = 0.f;
    }
  }
  const int share = (range.end - range.begin + Tile::warps - 1) / Tile::warps, begin = range.begin + warp * share;
  __syncthreads();
  attend(output, softmax, args, columns, {begin, min(range.end, begin + share)}, query, window, lane);

  publish_statistics(statistics, softmax, warp, lane);
#pragma unroll
  for (int m = 0; m < Tile::column_tiles; m++) {
    __syncthreads();  // statistics are complete, and the exchange area (the Q tile, or the tile before) is free
    combine_outputs(output[m], reinterpret_cast<float4*>(shared), statistics, args, columns, 8 * m, warp, lane);
  }
  if (args.split_count > 1 && threadIdx.x < Tile::columns && columns.exists(threadIdx.x)) {
    const ColumnStatistic all = combine_statistics(statistics, threadIdx.x, args.scoring.scale_log2);
    partial[columns.row(threadIdx.x)] = make_float2(all.maximum, all.sum);
  }
}
