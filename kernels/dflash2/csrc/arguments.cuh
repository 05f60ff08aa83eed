// Kernel parameters, passed by value. dflash2/arguments.py mirrors every struct field by field (a test compares them).
//
// Strides named *_stride count halves unless they say chunks (16 bytes). Every row starts at a 16-byte boundary.
#pragma once

#include "volta.cuh"

// The paged KV cache: token t of a sequence lies in page block_table[t / page_size], slot t % page_size.
// Cache offsets are 32-bit counts of chunks, which reaches 64 GiB a tensor.
struct PagedCache {
  const half_bits* keys;
  const half_bits* values;  // same strides as keys
  const int* block_table;   // [sequences][block_table_stride]
  int block_table_stride;
  int page_size;
  u32 page_magic;  // t / page_size == __umulhi(t, page_magic) >> page_shift for 0 <= t < 2^31, any page size >= 2
  int page_shift;
  u32 page_stride_chunks;
  u32 token_stride_chunks;
  u32 head_stride_chunks;
};

// How scores become probabilities: p = exp2(scale_log2 * f(q.k)), f(x) = x or tanh(x * softcap_inner).
struct Scoring {
  float scale_log2;     // softmax scale * log2(e); with a soft cap: cap * log2(e)
  float softcap_inner;  // softmax scale / cap; 0 without a soft cap
  int window;           // a query sees itself and window - 1 keys before it; 0 sees all
};

struct PrefillArguments {
  const half_bits* query;  // [tokens][query_heads][head_dim]
  half_bits* output;       // same shape
  const int* query_start;  // [sequences + 1], first token of each sequence
  const int* kv_length;    // [sequences], keys in the cache, the query tokens' own included
  int query_token_stride;
  int output_token_stride;
  int query_heads;
  int group_size;  // query heads a KV head
  PagedCache cache;
  Scoring scoring;
};

struct DecodeArguments {
  const half_bits* query;
  half_bits* output;         // written when split_count is 1
  float* partial_output;     // [split_count][tokens * query_heads][head_dim], not normalised
  float* partial_statistic;  // [split_count][tokens * query_heads][2]: row maximum of the scores, sum of exponentials
  const int* query_start;
  const int* kv_length;
  int query_token_stride;
  int output_token_stride;
  int query_heads;
  int kv_heads;
  u32 kv_head_magic;  // 2^32 / kv_heads + 1: __umulhi by it divides by kv_heads, unless that is 1
  int group_size;
  int group_magic;  // 65536 / group_size + 1: c / group_size == c * group_magic >> 16 while c * group_size < 65536
  int row_count;    // tokens * query_heads
  int split_count;
  u32 share_magic;  // 2^32 / (split_count * warps) + 1, likewise
  PagedCache cache;
  Scoring scoring;
};

struct MergeArguments {
  const float* partial_output;
  const float* partial_statistic;
  half_bits* output;
  int output_token_stride;
  int row_count;
  int split_count;
  float scale_log2;
};

struct KvWriteArguments {
  const half_bits* keys;    // [tokens][kv_heads][head_dim]
  const half_bits* values;  // same strides as keys
  half_bits* key_cache;
  half_bits* value_cache;
  const long long* slot_mapping;  // [tokens]: page * page_size + slot, negative for a token that is not stored
  int token_count;
  int kv_heads;
  int head_dim_chunks;
  int token_stride;  // of keys and values
  int page_size;
  u32 page_stride_chunks;
  u32 token_stride_chunks;
  u32 head_stride_chunks;
};

// Which entry of the block table holds the page of a token.
DEVICE int page_of(const PagedCache& cache, int token) {
  return __umulhi((u32)token, cache.page_magic) >> cache.page_shift;
}

// Chunk offset, head 0, of a token that lies in page number `page`.
DEVICE u32 chunk_in_page(const PagedCache& cache, int page, int token) {
  const int slot = token - page_of(cache, token) * cache.page_size;
  return (u32)page * cache.page_stride_chunks + (u32)slot * cache.token_stride_chunks;
}

// Chunk offset, head 0, of a token of the sequence whose block table starts at entry `table_row`.
DEVICE u32 token_chunk(const PagedCache& cache, u32 table_row, int token) {
  return chunk_in_page(cache, __ldg(cache.block_table + (table_row + page_of(cache, token))), token);
}
