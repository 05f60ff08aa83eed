// Causal attention of 1 to 8 query tokens a sequence over a paged KV cache, for sm_70, split along the keys.
//
// Same formula as prefill_attention.cu. A block takes one split of the keys, one KV head and 8 * COLUMN_TILES query
// rows
// ("columns": token * group_size + head of the group, they become the columns of the products) and reads every key and
// value of its split once. With several splits it writes partial results for merge_splits.cu, else the output itself.
//
// Launch: grid (ceil(columns / block columns), splits, sequences * KV heads), 32 * WARPS threads, SHARED_BYTES dynamic
// shared memory: Q tile [columns][head_dim] FP16 swizzled, then the warps' outputs and statistics in FP32. Blocks that
// read the same keys follow each other, so that the later ones find them in the L2 cache.
//
// A warp walks its own share of the keys in tiles of up to 32:
//
//   S^T = K Q^T   (row.col): quad-pairs along keys, so lane l feeds key 8 * quad_pair + feed
//   O^T = V^T P^T (col.row): quad-pairs along the head dim, so a 128-bit load a lane covers 4 keys x 64 dims
//
// K and V go from global memory straight to registers: there is nothing to share between warps. Memory is the limit, so
// something is always being loaded: the next batch of K under the products of this one, V under the last batch's and
// the softmax, the next tile's K under the last V products; and what follows a share's first tile is cut into equal
// tiles (26 + 26 keys, not 32 + 20), so that no warp is late.
#include "decode_exchange.cuh"

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

using KeyBatches = uint4[2][Tile::batch];  // the batch in use and the one being loaded

// S^T for the key of each lane; k[0] holds the key's first batch of chunks. `load_next` runs when no K is left to load.
template <class LoadNext>
DEVICE void multiply_scores(Scores& score, KeyBatches& k, const half_bits* key, const half_bits* query,
                            const LaneMap& lane, LoadNext load_next) {
#pragma unroll
  for (int m = 0; m < Tile::column_tiles; m++)
#pragma unroll
    for (int i = 0; i < 8; i++) score[m][i] = 0.f;
#pragma unroll
  for (int batch = 0; batch < Tile::chunks / Tile::batch; batch++) {
    const int next = (batch + 1) * Tile::batch;
    if (next < Tile::chunks)
      load_key_batch(k[(batch + 1) & 1], key, next);
    else
      load_next();
#pragma unroll
    for (int c = 0; c < Tile::batch; c++)
#pragma unroll
      for (int m = 0; m < Tile::column_tiles; m++) {
        const uint4 a = k[batch & 1][c];
        const int column = 8 * m + lane.feed, chunk = (batch * Tile::batch + c) ^ query_swizzle(column);
        const uint4 q = load_chunk(query + column * Tile::head_dim + chunk * kChunkHalves);
        mma_row_col(score[m], a.x, a.y, q.x, q.y);
        mma_row_col(score[m], a.z, a.w, q.z, q.w);
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
DEVICE void update_softmax(float (&score)[8], u32 (&p)[2][2], float (&maximum)[4], float (&decay)[4],
                           float scale_log2) {
#pragma unroll
  for (int x = 0; x < 4; x++) {
    const int i = element_of(x);
    const float tile_maximum =
        reduce_over_keys(fmaxf(score[i], score[i + 2]), [](float a, float b) { return fmaxf(a, b); });
    const float highest = fmaxf(maximum[x], tile_maximum);
    const float reference = highest == minus_infinity() ? 0.f : highest;  // no visible key yet
    decay[x] = exp2_approx((maximum[x] - reference) * scale_log2);
    maximum[x] = highest;
    score[i] = exp2_approx((score[i] - reference) * scale_log2);
    score[i + 2] = exp2_approx((score[i + 2] - reference) * scale_log2);
  }
#pragma unroll
  for (int y = 0; y < 2; y++)
#pragma unroll
    for (int step = 0; step < 2; step++)
      p[step][y] = pack_halves(to_half(score[4 * y + 2 * step]), to_half(score[4 * y + 2 * step + 1]));
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

DEVICE void scale_output(float (&output)[Tile::dim_pairs * 2][8], float (&sum)[8], const float (&factor)[4]) {
#pragma unroll
  for (int i = 0; i < 8; i++) sum[i] *= factor[2 * (i >> 2) + (i & 1)];
#pragma unroll
  for (int d = 0; d < Tile::dim_pairs * 2; d++)
#pragma unroll
    for (int i = 0; i < 8; i++) output[d][i] *= factor[2 * (i >> 2) + (i & 1)];
}

// The V operands of one product step, 64 head dims a chunk. In step s a lane feeds key 8 * (s >> 1) + 2 * (s & 1) + odd
// + 4 * pair of the tile, whose cache offset is known to the lane that read that key's K row.
using ValueStep = uint4[Tile::dim_pairs];
constexpr int kValueSteps = Tile::keys / 4;
constexpr int kValueDepth = Tile::column_tiles == 1 ? 4 : 2;   // steps whose V a lane keeps in flight
constexpr int kEarlyValues = Tile::column_tiles == 1 ? 3 : 1;  // of them under the last K products
constexpr int kNextKeysStep = 1;                               // under whose V products the next tile's K is fetched

DEVICE void load_values(ValueStep& v, const half_bits* values, u32 key_offset, int step, const LaneMap& lane) {
  const int owner = (lane.odd + 2 * (step & 1)) | ((step >> 1) << 2) | (lane.pair << 4);
  const half_bits* value = values + (u64)__shfl_sync(kAllLanes, key_offset, owner) * kChunkHalves;
  const int lane_chunk = 2 * lane.quad_pair + lane.half;
#pragma unroll
  for (int d = 0; d < Tile::dim_pairs; d++) {
    const bool exists = 8 * d + 8 <= Tile::chunks || 8 * d + lane_chunk < Tile::chunks;  // head dim 96 ends half-way
    v[d] = exists ? load_chunk_global(value + (8 * d + lane_chunk) * kChunkHalves) : zero_chunk();
  }
}

// O^T += V^T P^T for the four keys of one step.
DEVICE void accumulate_step(Output& output, Softmax& softmax, const Probabilities& p, const ValueStep& v, int step,
                            const LaneMap& lane) {
  const int source = lane.odd | (lane.half << 1) | ((step >> 1) << 2) | (lane.pair << 4);
#pragma unroll
  for (int m = 0; m < Tile::column_tiles; m++) {
    const u32 p0 = __shfl_sync(kAllLanes, p[m][step & 1][0], source);
    const u32 p1 = __shfl_sync(kAllLanes, p[m][step & 1][1], source);
    mma_col_row(softmax.sum[m], kOnes, kOnes, p0, p1);
#pragma unroll
    for (int d = 0; d < Tile::dim_pairs; d++) {
      mma_col_row(output[m][2 * d], v[d].x, v[d].y, p0, p1);
      mma_col_row(output[m][2 * d + 1], v[d].z, v[d].w, p0, p1);
    }
  }
}

// Where a warp finds its keys in the cache.
struct KeySource {
  u32 table_row, head_offset;  // entry of the block table, chunks

  // Cache offset of the lane's key of a tile. Lanes without a key of their own repeat the last one: its score is
  // masked, its V has weight zero.
  DEVICE u32 locate(const PagedCache& cache, KeyRange tile, const LaneMap& lane) const {
    const int token = min(tile.begin + 8 * lane.quad_pair + lane.feed, tile.end - 1);
    return token_chunk(cache, table_row, token) + head_offset;
  }
};

// Size of the fewest equal tiles that hold `count` keys, 0 for none: 32 - floor(unused / tiles), by a quick float
// division of small numbers that the half keeps exact.
DEVICE int even_tile(int count) {
  const int tiles = max(1u, (u32)(count + Tile::keys - 1) / Tile::keys), unused = tiles * Tile::keys - count;
  return Tile::keys - (int)((unused + 0.5f) * reciprocal_approx((float)tiles));
}

DEVICE void mask_scores(float (&score)[8], int first, int end, const int (&position)[4], int window,
                        const LaneMap& lane) {
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int token = first + 8 * lane.quad_pair + accumulator_row(lane, i);
    const int behind = position[2 * (i >> 2) + (i & 1)] - token;
    if (token >= end || behind < 0 || behind >= window) score[i] = minus_infinity();
  }
}

using Positions = int[Tile::column_tiles][4];  // of the columns whose maxima a lane holds

DEVICE void load_positions(Positions& position, const Columns& columns, const LaneMap& lane) {
#pragma unroll
  for (int m = 0; m < Tile::column_tiles; m++)
#pragma unroll
    for (int x = 0; x < 4; x++) position[m][x] = columns.position(8 * m + accumulator_column(lane, element_of(x)));
}

// Probabilities of one tile of keys; sums and outputs so far are brought to the new maximum.
DEVICE void weigh_tile(Probabilities& p, Output& output, Softmax& softmax, Scores& score, KeyRange tile,
                       const Positions& position, int window, const Scoring& scoring, const LaneMap& lane) {
#pragma unroll
  for (int m = 0; m < Tile::column_tiles; m++) {
    if (scoring.softcap_inner != 0.f)
#pragma unroll
      for (int i = 0; i < 8; i++) score[m][i] = tanh_approx(score[m][i] * scoring.softcap_inner);
    mask_scores(score[m], tile.begin, tile.end, position[m], window, lane);
    float decay[4], factor[4];
    update_softmax(score[m], p[m], softmax.maximum[m], decay, scoring.scale_log2);
    move_to_output(factor, decay, lane);
    scale_output(output[m], softmax.sum[m], factor);
  }
}

// Attends to the keys of a share, from tile.begin to `end`. The first tile is as large as can be, so that its first
// loads, `k[0]` at `offset`, could leave before the size of the others was known.
DEVICE void attend(Output& output, Softmax& softmax, KeyBatches& k, u32 offset, KeyRange tile, int end,
                   const KeySource& source, const DecodeArguments& args, const Columns& columns, const half_bits* query,
                   const LaneMap& lane) {
  const int window = args.scoring.window > 0 ? args.scoring.window : 0x7fffffff, tile_keys = even_tile(end - tile.end);
  Positions position;
  load_positions(position, columns, lane);
  while (tile.begin < tile.end) {
    const KeyRange next = {tile.end, min(tile.end + tile_keys, end)};
    const u32 next_offset = source.locate(args.cache, next, lane);
    Scores score;
    ValueStep v[kValueDepth];
    auto load_first_values = [&] {
#pragma unroll
      for (int step = 0; step < kEarlyValues; step++) load_values(v[step], args.cache.values, offset, step, lane);
    };
    multiply_scores(score, k, args.cache.keys + (u64)offset * kChunkHalves, query, lane, load_first_values);
#pragma unroll
    for (int step = kEarlyValues; step < kValueDepth; step++)
      load_values(v[step], args.cache.values, offset, step, lane);
    Probabilities p;
    weigh_tile(p, output, softmax, score, tile, position, window, args.scoring, lane);
#pragma unroll
    for (int step = 0; step < kValueSteps; step++) {
      accumulate_step(output, softmax, p, v[step % kValueDepth], step, lane);
      if (step + kValueDepth < kValueSteps)
        load_values(v[step % kValueDepth], args.cache.values, offset, step + kValueDepth, lane);
      if (step == kNextKeysStep && next.begin < next.end)
        load_key_batch(k[0], args.cache.keys + (u64)next_offset * kChunkHalves, 0);
    }
    tile = next;
    offset = next_offset;
  }
}

DEVICE void clear(Output& output, Softmax& softmax) {
#pragma unroll
  for (int m = 0; m < Tile::column_tiles; m++) {
#pragma unroll
    for (int d = 0; d < Tile::dim_pairs * 2; d++)
#pragma unroll
      for (int i = 0; i < 8; i++) output[m][d][i] = 0.f;
#pragma unroll
    for (int x = 0; x < 4; x++) softmax.maximum[m][x] = minus_infinity();
#pragma unroll
    for (int i = 0; i < 8; i++) softmax.sum[m][i] = 0.f;
  }
}

extern "C" __global__ void __launch_bounds__(Tile::threads, BLOCKS_PER_SM) ENTRY_POINT(DecodeArguments args) {
  DYNAMIC_SHARED(shared);
  half_bits* query = reinterpret_cast<half_bits*>(shared);
  const WarpStatistics statistics = {reinterpret_cast<float*>(shared + Tile::statistics_at)};
  const LaneMap lane = lane_map(threadIdx.x % kWarpSize);
  const int warp = threadIdx.x / kWarpSize, split = blockIdx.y;
  const int window = args.scoring.window > 0 ? args.scoring.window : 0x7fffffff;
  const Columns columns = load_columns(args);
  const KeyRange visible = visible_range(columns, window), share = warp_share(visible, split, warp, args);
  const KeySource source = {(u32)columns.sequence * args.cache.block_table_stride,
                            columns.kv_head * args.cache.head_stride_chunks};
  const KeyRange first_tile = {share.begin, min(share.begin + Tile::keys, share.end)};
  KeyBatches k;
  u32 offset = 0;
  if (columns.exists(0) && share.begin < share.end) {  // the first keys are on their way before anything else is done
    offset = source.locate(args.cache, first_tile, lane);
    load_key_batch(k[0], args.cache.keys + (u64)offset * kChunkHalves, 0);
  }
  if (!columns.exists(0)) return;
  if (warp_share(visible, split, 0, args).begin >= visible.end) {  // only with several splits: every query sees itself
    store_empty_split(args, columns);
    return;
  }
  load_query_tile(query, args, columns);
  Output output;
  Softmax softmax;
  clear(output, softmax);
  __syncthreads();
  attend(output, softmax, k, offset, first_tile, share.end, source, args, columns, query, lane);

  publish_statistics(statistics, softmax, warp, lane);
#pragma unroll
  for (int m = 0; m < Tile::column_tiles; m++)
    combine_outputs(output[m], statistics, reinterpret_cast<float4*>(shared + Tile::exchange_at), args, columns, m,
                    warp, lane);
}
