// Stores new keys and values into the paged cache, for sm_70:
//
//   key_cache[slot / page_size][slot % page_size][h] = keys[token][h],   slot = slot_mapping[token] (negative: skipped)
//
// The same for values. Any strides of the cache that are whole 16-byte chunks, so NHD and HND layouts alike.
//
// Launch: grid (tokens), 128 threads, no shared memory. Bytes are copied, so any 16-bit type will do.
#include "arguments.cuh"

extern "C" __global__ void __launch_bounds__(128) ENTRY_POINT(KvWriteArguments args) {
  const int token = blockIdx.x;
  const long long slot = args.slot_mapping[token];
  if (slot < 0) return;
  const u64 page = (u64)slot / args.page_size, position = (u64)slot % args.page_size;
  const u64 target = page * args.page_stride_chunks + position * args.token_stride_chunks;
  const u64 source = (u64)token * args.token_stride / kChunkHalves;
  const uint4* keys = reinterpret_cast<const uint4*>(args.keys) + source;
  const uint4* values = reinterpret_cast<const uint4*>(args.values) + source;
  uint4* key_cache = reinterpret_cast<uint4*>(args.key_cache) + target;
  uint4* value_cache = reinterpret_cast<uint4*>(args.value_cache) + target;
  for (int index = threadIdx.x; index < args.kv_heads * args.head_dim_chunks; index += blockDim.x) {
    const int head = index / args.head_dim_chunks, chunk = index % args.head_dim_chunks;
    const u64 offset = (u64)head * args.head_stride_chunks + chunk;
    key_cache[offset] = __ldg(keys + index);
    value_cache[offset] = __ldg(values + index);
  }
}
