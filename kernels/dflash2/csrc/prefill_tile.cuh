// Tile shape of prefill attention, and which lane holds what of it. prefill_attention.cu draws the whole.
#pragma once

#include "arguments.cuh"

struct Tile {
  static constexpr int head_dim = HEAD_DIM, query_tiles = QUERY_TILES, keys = KEYS, warps = WARPS;
  static constexpr int threads = 32 * warps;
  static constexpr int warp_rows = 16 * query_tiles, block_rows = warp_rows * warps;
  static constexpr int chunks = head_dim / kChunkHalves;
  static constexpr int row = (head_dim + 63) / 64 * 64;  // halves; a multiple of the 8 chunks that a swizzle permutes
  static constexpr int key_tiles = keys / 16;
  static constexpr int dim_quad_pairs = HEAD_DIM_QUAD_PAIRS;
  static constexpr int queries_a_product = 32 / dim_quad_pairs;  // columns of one warp-wide O^T product
  static constexpr int query_groups = warp_rows / queries_a_product;
  static constexpr int dim_tiles = head_dim / (8 * dim_quad_pairs);
  static constexpr int copies = keys * chunks / threads;  // chunks a thread moves for one K or V tile
  static constexpr int score_unroll = chunks % 8 == 0 ? 8 / query_tiles : 4;  // small loops: the L0 cache holds 12 KiB
};
static_assert(Tile::keys * Tile::chunks % Tile::threads == 0, "every thread copies the same number of chunks");
static_assert(Tile::head_dim % (16 * Tile::dim_quad_pairs) == 0, "a V chunk pair spans whole quad-pairs");
static_assert((Tile::block_rows + 2 * Tile::keys) * Tile::row * sizeof(half_bits) == SHARED_BYTES,
              "tile of variants.py");
static_assert(SHARED_BYTES <= 98304, "the most shared memory a block can have on sm_70");

// A row's chunk c is stored at c ^ swizzle(row), so that the 8 lanes of a 128-bit access phase hit 8 bank groups.
// Q and K are read in phases of rows {0..3, 8..11} + const at one chunk: rows differ in bits 0, 1 and 3.
DEVICE int query_key_swizzle(int row) { return (row & 3) | ((row >> 1) & 4); }
// V is read in phases of rows {0, 1, 4, 5} + const at chunks {c, c + 2}: rows differ in bits 0 and 2.
DEVICE int value_swizzle(int row) { return (row & 1) | (row & 4); }

struct Sequence {
  int first_query, query_count, key_count;
  int shift;  // position of query i is i + shift
};

DEVICE Sequence load_sequence(const PrefillArguments& args, int index) {
  const int first = args.query_start[index], count = args.query_start[index + 1] - first, keys = args.kv_length[index];
  return {first, count, keys, keys - count};
}

// Softmax state of a warp. A lane holds four queries a tile: statistic x belongs to accumulator elements
// i = 4 * (x >> 1) + (x & 1) and i + 2 of S^T, so to query 8 * (quad_pair >> 1) + accumulator_column(i).
struct Softmax {
  float maximum[Tile::query_tiles][4], sum[Tile::query_tiles][4];
};
DEVICE int element_of(int x) { return 4 * (x >> 1) + (x & 1); }

using Scores = float[Tile::query_tiles][Tile::key_tiles][8];
using Output = float[Tile::query_groups][Tile::dim_tiles][8];
// P^T rounded to FP16: [..][step][x >> 1] packs elements i = 4 * (x >> 1) + 2 * step and i + 1.
using Probabilities = u32[Tile::query_tiles][Tile::key_tiles][2][2];
using Factors = float[Tile::query_groups][4];

// Query of O^T element i in its group: the P operand's shuffles permute the columns of S^T to this order.
DEVICE int output_query(const LaneMap& lane, int group, int i) {
  const int quad = Tile::dim_quad_pairs == 2 ? 8 * (lane.quad_pair >> 1) : 0;
  return group * Tile::queries_a_product + quad + 4 * lane.pair + 2 * (i >> 2) + (i & 1);
}

// First head dim of the chunk whose four halves `part` (0 or 1) make tile 2 * dim_pair + part of O^T.
DEVICE int output_chunk(const LaneMap& lane, int dim_pair) {
  return dim_pair * 2 * Tile::dim_quad_pairs + 2 * (lane.quad_pair & (Tile::dim_quad_pairs - 1)) + lane.half;
}
