// Causal attention of many query tokens over a paged KV cache, for sm_70 (FlashAttention-2 tiling on mma.m8n8k4).
//
//   output[q, h] = sum_k p[q, k] * V[k, h / group_size],   p = softmax over the visible k of f(scale * Q[q, h].K[k])
//
// Query token i of a sequence of n queries and m keys stands at position m - n + i and sees the keys up to it: all, or
// the last `window`. FP16 in and out; scores, softmax and sums in FP32, probabilities rounded to FP16 for the product.
//
// Launch: grid (query_heads, sequences, ceil(longest query / block rows)), 32 * WARPS threads, SHARED_BYTES dynamic
// shared memory:  Q tile [block rows][row] | K tile [KEYS][row] | V tile [KEYS][row],  all FP16 and swizzled.
// The last query block of a head walks the most keys, so it is launched first.
//
// A warp owns 16 * QUERY_TILES query rows. It computes the transposes
//
//   S^T = K Q^T   (row.col): quad-pairs 2 along keys x 2 along queries, so a 16x16 tile an mma
//   O^T = V^T P^T (col.row): quad-pairs HEAD_DIM_QUAD_PAIRS along the head dim, the others along queries
//
// so that K, Q and V are read from shared memory row by row, 16 bytes a lane, and P never leaves the registers: a lane
// of the second product gets its P operand from a lane of the first by two shuffles (see probability_operand).
// With four quad-pairs along the head dim no two lanes read the same V chunk: half the V reads of the 2 x 2 layout for
// twice the shuffles. Shared memory being the busiest unit, that is the better bargain; 2 x 2 serves head dim 96, which
// four quad-pairs of 16 do not divide.
#include "prefill_copy.cuh"

// S^T = K Q^T for the warp's queries.
DEVICE void multiply_scores(Scores& score, const half_bits* keys, const half_bits* queries, const LaneMap& lane) {
#pragma unroll
  for (int t = 0; t < Tile::query_tiles; t++)
#pragma unroll
    for (int n = 0; n < Tile::key_tiles; n++)
#pragma unroll
      for (int i = 0; i < 8; i++) score[t][n][i] = 0.f;
  const int key_row = 8 * (lane.quad_pair & 1) + lane.feed, query_row = 8 * (lane.quad_pair >> 1) + lane.feed;
  const half_bits* key = keys + key_row * Tile::row;  // a swizzle does not change from one 16-row tile to the next
  const half_bits* query = queries + query_row * Tile::row;
  const int key_swizzle = query_key_swizzle(key_row), query_swizzle = query_key_swizzle(query_row);
#pragma unroll Tile::score_unroll
  for (int chunk = 0; chunk < Tile::chunks; chunk++) {
    uint4 k[Tile::key_tiles], q[Tile::query_tiles];
#pragma unroll
    for (int n = 0; n < Tile::key_tiles; n++)
      k[n] = load_chunk(key + 16 * n * Tile::row + (chunk ^ key_swizzle) * kChunkHalves);
#pragma unroll
    for (int t = 0; t < Tile::query_tiles; t++)
      q[t] = load_chunk(query + 16 * t * Tile::row + (chunk ^ query_swizzle) * kChunkHalves);
#pragma unroll
    for (int t = 0; t < Tile::query_tiles; t++)
#pragma unroll
      for (int n = 0; n < Tile::key_tiles; n++) {
        mma_row_col(score[t][n], k[n].x, k[n].y, q[t].x, q[t].y);
        mma_row_col(score[t][n], k[n].z, k[n].w, q[t].z, q[t].w);
      }
  }
}

DEVICE void cap_scores(Scores& score, float softcap_inner) {
#pragma unroll
  for (int t = 0; t < Tile::query_tiles; t++)
#pragma unroll
    for (int n = 0; n < Tile::key_tiles; n++)
#pragma unroll
      for (int i = 0; i < 8; i++) score[t][n][i] = tanh_approx(score[t][n][i] * softcap_inner);
}

// Hides keys after a query's position and before its window. `distance`: position of the warp's first query minus the
// block's first key.
DEVICE void mask_scores(Scores& score, int distance, int window, const LaneMap& lane) {
  const int lane_distance =
      distance + 8 * (lane.quad_pair >> 1) + 2 * lane.pair - 8 * (lane.quad_pair & 1) - lane.odd - 4 * lane.half;
#pragma unroll
  for (int t = 0; t < Tile::query_tiles; t++)
#pragma unroll
    for (int n = 0; n < Tile::key_tiles; n++)
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const int behind = lane_distance + 16 * t + (i & 4) + (i & 1) - 16 * n - (i & 2);  // query minus key position
        if (behind < 0 || behind >= window) score[t][n][i] = minus_infinity();
      }
}

// Maximum or sum over the keys of a tile: they are spread over lane bits 0, 2 and 4.
template <class Combine>
DEVICE float reduce_over_keys(float value, Combine combine) {
  value = combine(value, __shfl_xor_sync(kAllLanes, value, 1));
  value = combine(value, __shfl_xor_sync(kAllLanes, value, 4));
  return combine(value, __shfl_xor_sync(kAllLanes, value, 16));
}

// Raises the maxima of one query tile by its scores, turns the scores into exponentials relative to them, and returns
// in `decay` what older sums and outputs must be multiplied by.
DEVICE void exponentiate(float (&score)[Tile::key_tiles][8], float (&maximum)[4], float (&decay)[4], float scale_log2) {
#pragma unroll
  for (int x = 0; x < 4; x++) {
    const int i = element_of(x);
    float highest = maximum[x];
#pragma unroll
    for (int n = 0; n < Tile::key_tiles; n++) highest = fmaxf(highest, fmaxf(score[n][i], score[n][i + 2]));
    highest = reduce_over_keys(highest, [](float a, float b) { return fmaxf(a, b); });
    const float reference = highest == minus_infinity() ? 0.f : highest;  // no visible key yet
    decay[x] = exp2_approx((maximum[x] - reference) * scale_log2);
    maximum[x] = highest;
#pragma unroll
    for (int n = 0; n < Tile::key_tiles; n++) {
      // Subtract before scaling: the difference of equal scores is exactly 0, however large they are.
      score[n][i] = exp2_approx((score[n][i] - reference) * scale_log2);
      score[n][i + 2] = exp2_approx((score[n][i + 2] - reference) * scale_log2);
    }
  }
}

// Rounds the exponentials to FP16 and adds them to the sums as rounded, so that rounding cancels in the quotient.
DEVICE void round_and_add(u32 (&p)[Tile::key_tiles][2][2], float (&sum)[4],
                          const float (&exponential)[Tile::key_tiles][8]) {
#pragma unroll
  for (int y = 0; y < 2; y++)
#pragma unroll
    for (int n = 0; n < Tile::key_tiles; n++)
#pragma unroll
      for (int step = 0; step < 2; step++) {
        const int i = 4 * y + 2 * step;
        const u32 pair = pack_halves(to_half(exponential[n][i]), to_half(exponential[n][i + 1]));
        p[n][step][y] = pair;
        sum[2 * y] += low_half(pair);
        sum[2 * y + 1] += high_half(pair);
      }
}

// Brings a value a query from the lanes of S^T to those of O^T: factor[group][y] belongs to elements with
// 2 * (i >> 2) + (i & 1) == y.
DEVICE void move_to_output(Factors& factor, const float (&value)[Tile::query_tiles][4], const LaneMap& lane) {
#pragma unroll
  for (int t = 0; t < Tile::query_tiles; t++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      if (Tile::dim_quad_pairs ==
          2) {  // half of the queries are the lane's own, the others its neighbour's (pair flipped)
        const float own = lane.pair ? value[t][2 + e] : value[t][e];
        const float give = lane.pair ? value[t][e] : value[t][2 + e];
        const float got = __shfl_xor_sync(kAllLanes, give, 2);
        factor[t][e] = lane.pair ? got : own;
        factor[t][2 + e] = lane.pair ? own : got;
      } else {  // lanes that differ in `odd` hold the same values: each offers the half that equals its `odd`
        const float offer = lane.odd ? value[t][2 + e] : value[t][e];
#pragma unroll
        for (int side = 0; side < 2; side++)
#pragma unroll
          for (int y = 0; y < 2; y++)
            factor[2 * t + side][2 * y + e] = __shfl_sync(kAllLanes, offer, lane.pair | (y << 1) | (side << 3));
      }
    }
}

DEVICE void scale_output(Output& output, const Factors& factor) {
#pragma unroll
  for (int g = 0; g < Tile::query_groups; g++)
#pragma unroll
    for (int d = 0; d < Tile::dim_tiles; d++)
#pragma unroll
      for (int i = 0; i < 8; i++) output[g][d][i] *= factor[g][2 * (i >> 2) + (i & 1)];
}

// The P operand of an O^T product for four keys 8 * key_half + 2 * step + {0, 1, 4, 5} of key tile n. The lane feeds
// key odd + 4 * pair; its four columns are the queries {0, 1, 4, 5} + 2 * half of an 8-column block of S^T.
DEVICE void probability_operand(u32 (&operand)[2], const Probabilities& p, int group, int n, int step, int key_half,
                                const LaneMap& lane) {
  const int t = Tile::dim_quad_pairs == 2 ? group : group / 2;
  const int side = Tile::dim_quad_pairs == 2 ? lane.quad_pair >> 1 : group & 1;
  const int source = lane.odd | (lane.half << 1) | (key_half << 2) | (side << 3) | (lane.pair << 4);
  operand[0] = __shfl_sync(kAllLanes, p[t][n][step][0], source);
  operand[1] = __shfl_sync(kAllLanes, p[t][n][step][1], source);
}

// O^T += V^T P^T. The loop over key_half stays a loop: its body alone is 2-5 KB of code.
DEVICE void accumulate_output(Output& output, const Probabilities& p, const half_bits* values, const LaneMap& lane) {
  const int lane_row = lane.odd + 4 * lane.pair, swizzle = value_swizzle(lane_row);
#pragma unroll 1
  for (int key_half = 0; key_half < 2; key_half++) {
    const half_bits* value = values + (8 * key_half + lane_row) * Tile::row;
#pragma unroll
    for (int n = 0; n < Tile::key_tiles; n++)
#pragma unroll
      for (int step = 0; step < 2; step++) {
        u32 operand[Tile::query_groups][2];
#pragma unroll
        for (int g = 0; g < Tile::query_groups; g++) probability_operand(operand[g], p, g, n, step, key_half, lane);
#pragma unroll
        for (int d = 0; d < Tile::dim_tiles / 2; d++) {
          const int chunk = output_chunk(lane, d) ^ swizzle;
          const uint4 v = load_chunk(value + (16 * n + 2 * step) * Tile::row + chunk * kChunkHalves);
#pragma unroll
          for (int g = 0; g < Tile::query_groups; g++) {
            mma_col_row(output[g][2 * d], v.x, v.y, operand[g][0], operand[g][1]);
            mma_col_row(output[g][2 * d + 1], v.z, v.w, operand[g][0], operand[g][1]);
          }
        }
      }
  }
}

DEVICE void clear(Output& output, Softmax& softmax) {
#pragma unroll
  for (int g = 0; g < Tile::query_groups; g++)
#pragma unroll
    for (int d = 0; d < Tile::dim_tiles; d++)
#pragma unroll
      for (int i = 0; i < 8; i++) output[g][d][i] = 0.f;
#pragma unroll
  for (int t = 0; t < Tile::query_tiles; t++)
#pragma unroll
    for (int x = 0; x < 4; x++) {
      softmax.maximum[t][x] = minus_infinity();
      softmax.sum[t][x] = 0.f;
    }
}

// One over each query's sum; a query that sees no key gets zero.
DEVICE void invert_sums(Factors& inverse_sum, const Softmax& softmax, const LaneMap& lane) {
  float inverse[Tile::query_tiles][4];
#pragma unroll
  for (int t = 0; t < Tile::query_tiles; t++)
#pragma unroll
    for (int x = 0; x < 4; x++) {
      const float sum = reduce_over_keys(softmax.sum[t][x], [](float a, float b) { return a + b; });
      inverse[t][x] = sum > 0.f ? reciprocal_approx(sum) : 0.f;
    }
  move_to_output(inverse_sum, inverse, lane);
}

// The keys that a block walks, and how far each warp's queries stand from them.
struct Walk {
  int position;  // of the block's first query
  int window;    // keys a query sees, itself included
  int lowest;    // first key that any query sees
  int first_tile, last_tile;

  // Position of the warp's first query minus the first key of a tile.
  DEVICE int distance(int tile, int warp_row) const { return position + warp_row - tile * Tile::keys; }
  DEVICE bool is_seen(int distance) const {
    return distance + Tile::warp_rows > 0 && distance - (Tile::keys - 1) < window;
  }
  DEVICE bool needs_mask(int distance) const {
    return distance < Tile::keys - 1 || distance + Tile::warp_rows - 1 >= window;
  }
};

DEVICE Walk plan_walk(const PrefillArguments& args, const Sequence& sequence, int first_query) {
  const int position = first_query + sequence.shift,
            window = args.scoring.window > 0 ? args.scoring.window : 0x7fffffff;
  const int lowest = max(0, position - window + 1);
  const int last_query = min(first_query + Tile::block_rows, sequence.query_count) - 1;
  return {position, window, lowest, lowest / Tile::keys, (last_query + sequence.shift) / Tile::keys};
}

// Probabilities of the warp's queries for one tile of keys; sums and outputs so far are brought to the new maximum.
DEVICE void weigh_tile(Probabilities& p, Output& output, Softmax& softmax, const half_bits* keys,
                       const half_bits* queries, const Walk& walk, int distance, const Scoring& scoring,
                       const LaneMap& lane) {
  Scores score;
  float decay[Tile::query_tiles][4];
  Factors factor;
  multiply_scores(score, keys, queries, lane);
  if (scoring.softcap_inner != 0.f) cap_scores(score, scoring.softcap_inner);
  if (walk.needs_mask(distance)) mask_scores(score, distance, walk.window, lane);
#pragma unroll
  for (int t = 0; t < Tile::query_tiles; t++) {
    exponentiate(score[t], softmax.maximum[t], decay[t], scoring.scale_log2);
#pragma unroll
    for (int x = 0; x < 4; x++) softmax.sum[t][x] *= decay[t][x];
    round_and_add(p[t], softmax.sum[t], score[t]);
  }
  move_to_output(factor, decay, lane);
  scale_output(output, factor);
}

extern "C" __global__ void __launch_bounds__(Tile::threads, BLOCKS_PER_SM) ENTRY_POINT(PrefillArguments args) {
  DYNAMIC_SHARED(shared);
  half_bits* query_tile = reinterpret_cast<half_bits*>(shared);
  half_bits* key_tile = query_tile + Tile::block_rows * Tile::row;
  half_bits* value_tile = key_tile + Tile::keys * Tile::row;
  const LaneMap lane = lane_map(threadIdx.x % kWarpSize);
  const int head = blockIdx.x, warp_row = threadIdx.x / kWarpSize * Tile::warp_rows;
  const Sequence sequence = load_sequence(args, blockIdx.y);
  const int first_query = (int)(gridDim.z - 1 - blockIdx.z) * Tile::block_rows;
  if (first_query >= sequence.query_count) return;
  half_bits* warp_queries = query_tile + warp_row * Tile::row;
  const bool has_queries = first_query + warp_row < sequence.query_count;  // the warp's: it helps to copy in any case
  const Walk walk = plan_walk(args, sequence, first_query);
  const KeySource source = {args.cache, args.cache.block_table + (u64)blockIdx.y * args.cache.block_table_stride,
                            head / args.group_size * args.cache.head_stride_chunks, walk.lowest, sequence.key_count};

  RowPages pages;
  uint4 staged[Tile::copies];  // K and V in turn: one is loaded while the other is multiplied
  fetch_pages(pages, source, walk.first_tile * Tile::keys);
  fetch_tile(staged, args.cache.keys, source, pages, walk.first_tile * Tile::keys);
  load_query_tile(query_tile, args, sequence, first_query, head);
  store_tile<query_key_swizzle>(key_tile, staged);
  Output output;
  Softmax softmax;
  clear(output, softmax);
  __syncthreads();

  for (int tile = walk.first_tile; tile <= walk.last_tile; tile++) {
    const int distance = walk.distance(tile, warp_row);
    const bool is_seen = has_queries && walk.is_seen(distance), is_last = tile == walk.last_tile;
    fetch_tile(staged, args.cache.values, source, pages, tile * Tile::keys);
    if (!is_last) fetch_pages(pages, source, (tile + 1) * Tile::keys);
    Probabilities p;
    if (is_seen) weigh_tile(p, output, softmax, key_tile, warp_queries, walk, distance, args.scoring, lane);
    store_tile<value_swizzle>(value_tile, staged);
    __syncthreads();  // V is complete; nobody reads K any more
    if (!is_last) fetch_tile(staged, args.cache.keys, source, pages, (tile + 1) * Tile::keys);
    if (is_seen) accumulate_output(output, p, value_tile, lane);
    if (!is_last) store_tile<query_key_swizzle>(key_tile, staged);
    __syncthreads();  // K is complete; nobody reads V any more
  }

  Factors inverse_sum;
  invert_sums(inverse_sum, softmax, lane);
  store_output(output, inverse_sum, warp_queries, args, sequence, first_query + warp_row, head, lane);
}
