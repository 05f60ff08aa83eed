// How prefill attention moves Q, K, V and its output between global and shared memory: whole 16-byte chunks, swizzled.
#pragma once

#include "prefill_tile.cuh"

// What a block copies of the cache: the keys of one sequence and KV head that any of its queries sees.
struct KeySource {
  PagedCache cache;
  const int* pages;
  u32 head_offset;  // chunks
  int lowest, end;  // keys before every query's window, or that do not exist, are zero and never read

  DEVICE int token(int first_key, int i) const {
    return first_key + (int)(threadIdx.x + i * Tile::threads) / Tile::chunks;
  }
  DEVICE bool holds(int token) const { return token >= lowest && token < end; }
};

// Page numbers of the rows of a tile that this thread copies. They are fetched a tile ahead and used when they are
// needed: an address computed at once would wait for the page number in front of the products.
using RowPages = int[Tile::copies];

DEVICE void fetch_pages(RowPages& pages, const KeySource& source, int first_key) {
#pragma unroll
  for (int i = 0; i < Tile::copies; i++) {
    const int token = source.token(first_key, i);
    if (source.holds(token)) pages[i] = __ldg(source.pages + page_of(source.cache, token));
  }
}

DEVICE void fetch_tile(uint4 (&staged)[Tile::copies], const half_bits* side, const KeySource& source,
                       const RowPages& pages, int first_key) {
#pragma unroll
  for (int i = 0; i < Tile::copies; i++) {
    const int token = source.token(first_key, i), chunk = (threadIdx.x + i * Tile::threads) % Tile::chunks;
    const u32 offset = source.head_offset + chunk_in_page(source.cache, pages[i], token) + chunk;
    staged[i] = source.holds(token) ? load_chunk_global(side + (u64)offset * kChunkHalves) : zero_chunk();
  }
}

template <int (*swizzle)(int)>
DEVICE void store_tile(half_bits* tile, const uint4 (&staged)[Tile::copies]) {
#pragma unroll
  for (int i = 0; i < Tile::copies; i++) {
    const int index = threadIdx.x + i * Tile::threads, row = index / Tile::chunks, chunk = index % Tile::chunks;
    store_chunk(tile + row * Tile::row + (chunk ^ swizzle(row)) * kChunkHalves, staged[i]);
  }
}

DEVICE void load_query_tile(half_bits* tile, const PrefillArguments& args, const Sequence& sequence, int first,
                            int head) {
  const half_bits* query =
      args.query + (u64)(sequence.first_query + first) * args.query_token_stride + head * Tile::head_dim;
  for (int index = threadIdx.x; index < Tile::block_rows * Tile::chunks; index += Tile::threads) {
    const int row = index / Tile::chunks, chunk = index % Tile::chunks;
    const half_bits* source = query + (u64)row * args.query_token_stride + chunk * kChunkHalves;
    const uint4 value = first + row < sequence.query_count ? load_chunk_global(source) : zero_chunk();
    store_chunk(tile + row * Tile::row + (chunk ^ query_key_swizzle(row)) * kChunkHalves, value);
  }
}

// Writes the normalised output through the warp's own rows of the Q tile, so that global stores are whole chunks.
DEVICE void store_output(const Output& output, const Factors& inverse_sum, half_bits* rows,
                         const PrefillArguments& args, const Sequence& sequence, int first, int head,
                         const LaneMap& lane) {
#pragma unroll
  for (int g = 0; g < Tile::query_groups; g++)
#pragma unroll
    for (int d = 0; d < Tile::dim_tiles; d++)
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const int row = output_query(lane, g, i), chunk = output_chunk(lane, d / 2) ^ query_key_swizzle(row);
        const float value = output[g][d][i] * inverse_sum[g][2 * (i >> 2) + (i & 1)];
        rows[row * Tile::row + chunk * kChunkHalves + 4 * (d & 1) + (i & 2) + lane.odd] = to_half(value);
      }
  __syncwarp();
  half_bits* target =
      args.output + (u64)(sequence.first_query + first) * args.output_token_stride + head * Tile::head_dim;
  for (int index = threadIdx.x % kWarpSize; index < Tile::warp_rows * Tile::chunks; index += kWarpSize) {
    const int row = index / Tile::chunks, chunk = index % Tile::chunks;
    const uint4 value = load_chunk(rows + row * Tile::row + (chunk ^ query_key_swizzle(row)) * kChunkHalves);
    if (first + row < sequence.query_count)
      store_chunk(target + (u64)row * args.output_token_stride + chunk * kChunkHalves, value);
  }
}
