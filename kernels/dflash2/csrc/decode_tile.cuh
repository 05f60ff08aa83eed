// Tile shape of decode attention, which lane holds what of it, and which keys a warp takes. decode_attention.cu draws
// the whole.
#pragma once

#include "arguments.cuh"

struct Tile {
  static constexpr int head_dim = HEAD_DIM, column_tiles = COLUMN_TILES, warps = WARPS;
  static constexpr int threads = 32 * warps, columns = 8 * column_tiles, keys = 32;
  static constexpr int chunks = head_dim / kChunkHalves;
  static constexpr int batch = chunks % 8 == 0 ? 8 : 4;   // K chunks a lane loads at once: one or half a cache line
  static constexpr int dim_pairs = (head_dim + 63) / 64;  // V chunks of a lane and key
  static constexpr int quads = dim_pairs * 4;             // output elements / 4 of a lane and column tile
  static constexpr int rounds = EXCHANGE_ROUNDS;          // the warps' outputs are exchanged in, to leave the L1 large
  static constexpr int round_quads = quads / rounds;
  static constexpr int exchange_at = columns * head_dim * 2;  // bytes
  static constexpr int statistics_at = exchange_at + warps * kWarpSize * round_quads * 16;
};
constexpr int kFewestKeysAWarp = 16;
static_assert(Tile::statistics_at + 2 * Tile::warps * Tile::columns * 4 == SHARED_BYTES, "tile of variants.py");
static_assert(SHARED_BYTES <= 98304, "the most shared memory a block can have on sm_70");

using Scores = float[Tile::column_tiles][8];
using Output = float[Tile::column_tiles][Tile::dim_pairs * 2][8];
using Probabilities = u32[Tile::column_tiles][2][2];  // [..][step][y] packs S^T elements 4 * y + 2 * step and the next

// Maximum x of a lane belongs to elements i = 4 * (x >> 1) + (x & 1) and i + 2 of S^T: to accumulator_column(i). The
// sums are one more tile of O^T, for a V of ones: tensor cores have time to spare here, and no reduction over lanes
// remains.
struct Softmax {
  float maximum[Tile::column_tiles][4], sum[Tile::column_tiles][8];
};
constexpr u32 kOnes = 0x3c003c00;  // two halves of 1
DEVICE int element_of(int x) { return 4 * (x >> 1) + (x & 1); }
// Column of O^T element i in its tile: the shuffles of P permute the columns of S^T to this order.
DEVICE int output_column(const LaneMap& lane, int i) { return 4 * lane.pair + 2 * (i >> 2) + (i & 1); }
DEVICE int query_swizzle(int column) { return column & (Tile::chunks % 8 == 0 ? 7 : 3); }

// The query rows of a block: column c is token c / group_size, head c % group_size of the group.
struct Columns {
  int sequence, first, group_size, group_magic, query_heads, kv_head, first_query, query_count, first_position;
  DEVICE int token(int column) const { return (first + column) * group_magic >> 16; }
  DEVICE bool exists(int column) const { return token(column) < query_count; }
  DEVICE int head(int column) const { return (kv_head - token(column)) * group_size + first + column; }
  DEVICE int row(int column) const { return (first_query + token(column)) * query_heads + head(column); }
  DEVICE int position(int column) const { return first_position + min(token(column), query_count - 1); }
};

struct KeyRange {
  int begin, end;
};

DEVICE Columns load_columns(const DecodeArguments& args) {
  const int sequence = args.kv_heads > 1 ? __umulhi(blockIdx.z, args.kv_head_magic) : blockIdx.z;
  const int kv_head = blockIdx.z - sequence * args.kv_heads;
  const int* start = args.query_start + sequence;
  const int first_query = __ldg(start), end_query = __ldg(start + 1), keys = __ldg(args.kv_length + sequence);
  return {sequence,
          (int)blockIdx.x * Tile::columns,
          args.group_size,
          args.group_magic,
          args.query_heads,
          kv_head,
          first_query,
          end_query - first_query,
          keys - (end_query - first_query)};
}

// All keys that a query of the block sees.
DEVICE KeyRange visible_range(const Columns& columns, int window) {
  return {max(0, columns.position(0) - window + 1), columns.position(Tile::columns - 1) + 1};
}

// First key of a share, counted from the visible range's begin: count * share / shares, or shares of kFewestKeysAWarp
// while there are few keys. The quotient may be one off for long ranges, but is the same wherever a share begins or
// ends.
DEVICE int share_begin(int count, int share, const DecodeArguments& args) {
  const int even = __umulhi(count * share, args.share_magic), few = kFewestKeysAWarp * share;
  return min(count, max(even, few));
}

// The keys of one warp: the visible range is cut into shares for the warps of all splits. May be empty.
DEVICE KeyRange warp_share(KeyRange visible, int split, int warp, const DecodeArguments& args) {
  const int share = split * Tile::warps + warp, count = visible.end - visible.begin;
  const bool is_last = share + 1 == args.split_count * Tile::warps;
  return {visible.begin + share_begin(count, share, args),
          is_last ? visible.end : visible.begin + share_begin(count, share + 1, args)};
}
