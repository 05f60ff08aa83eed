// The sm_70 instructions our kernels use, and the lane maps of mma.m8n8k4. Needs no CUDA header.
//
// mma.m8n8k4 is four independent 8x8x4 products a warp, one for each quad-pair. The five lane bits are named
//
//      lane   =   half   quad_pair   pair   odd          quad_pair p owns lanes 4p..4p+3 (half 0)
//      bits         4      3..2       1      0           and 16+4p..16+4p+3 (half 1)
//
//   operand, layout          a lane holds                                    with  feed = (lane & 3) + 4 * half
//   A row-major (8x4)        row feed, k = 0..3
//   B column-major (4x8)     column feed, k = 0..3
//   A column-major           k = lane & 3, rows 4 * half + 0..3
//   B row-major              k = lane & 3, columns 4 * half + 0..3
//   C element i of 8         row odd + (i & 2) + 4 * half, column (i & 4) + 2 * pair + (i & 1)
//
// A 16-byte chunk of a row is thus the operand of two consecutive products (k = 0..3 and 4..7).
#pragma once

#ifdef DFLASH2_HOST_SHIM
#include "cuda_on_cpu.h"
#endif

#define DEVICE __device__ __forceinline__

using u32 = unsigned int;
using u64 = unsigned long long;
using half_bits = unsigned short;  // an IEEE half as its bits: cuda_fp16.h would need an include path at run time

constexpr int kWarpSize = 32;
constexpr u32 kAllLanes = 0xffffffffu;
constexpr int kChunkHalves = 8;  // one 128-bit access

struct LaneMap {
  int odd, pair, quad_pair, half, feed;
};

DEVICE LaneMap lane_map(int lane) {
  return {lane & 1, (lane >> 1) & 1, (lane >> 2) & 3, lane >> 4, (lane & 3) + 4 * (lane >> 4)};
}

// Row and column of accumulator element i inside its quad-pair's 8x8 tile.
DEVICE int accumulator_row(const LaneMap& lane, int i) { return lane.odd + (i & 2) + 4 * lane.half; }
DEVICE int accumulator_column(const LaneMap& lane, int i) { return (i & 4) + 2 * lane.pair + (i & 1); }

#ifdef DFLASH2_HOST_SHIM
DEVICE float minus_infinity() { return -INFINITY; }
DEVICE void mma_row_col(float (&c)[8], u32 a0, u32 a1, u32 b0, u32 b1) { shim::mma(c, a0, a1, b0, b1, true, true); }
DEVICE void mma_col_row(float (&c)[8], u32 a0, u32 a1, u32 b0, u32 b1) { shim::mma(c, a0, a1, b0, b1, false, false); }
DEVICE float exp2_approx(float x) { return exp2f(x); }
DEVICE float reciprocal_approx(float x) { return 1.f / x; }
DEVICE half_bits to_half(float x) { return shim::to_half(x); }
DEVICE float from_half(half_bits x) { return shim::from_half(x); }
#define DYNAMIC_SHARED(name) unsigned char* name = shim::dynamic_shared()
#else
DEVICE float minus_infinity() { return __int_as_float(0xff800000); }

// c += A * B with A row-major and B column-major, FP16 operands, FP32 accumulator.
DEVICE void mma_row_col(float (&c)[8], u32 a0, u32 a1, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7},{%8,%9},{%10,%11},"
      "{%0,%1,%2,%3,%4,%5,%6,%7};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
      : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
}

// c += A * B with A column-major and B row-major.
DEVICE void mma_col_row(float (&c)[8], u32 a0, u32 a1, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7},{%8,%9},{%10,%11},"
      "{%0,%1,%2,%3,%4,%5,%6,%7};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
      : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
}

DEVICE float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
  return y;
}

DEVICE float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
  return y;
}

DEVICE half_bits to_half(float x) {
  half_bits y;
  asm("cvt.rn.f16.f32 %0,%1;" : "=h"(y) : "f"(x));
  return y;
}

DEVICE float from_half(half_bits x) {
  float y;
  asm("cvt.f32.f16 %0,%1;" : "=f"(y) : "h"(x));
  return y;
}

#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

// Two halves in one register, the first in the low bits: the operand order of mma.
DEVICE u32 pack_halves(half_bits low, half_bits high) { return (u32)low | ((u32)high << 16); }
DEVICE float low_half(u32 pair) { return from_half((half_bits)pair); }
DEVICE float high_half(u32 pair) { return from_half((half_bits)(pair >> 16)); }

DEVICE uint4 load_chunk(const half_bits* p) { return *reinterpret_cast<const uint4*>(p); }
DEVICE void store_chunk(half_bits* p, uint4 v) { *reinterpret_cast<uint4*>(p) = v; }
DEVICE uint4 load_chunk_global(const half_bits* p) { return __ldg(reinterpret_cast<const uint4*>(p)); }
DEVICE uint4 zero_chunk() { return make_uint4(0, 0, 0, 0); }

// Four floats times `factor`, as halves.
DEVICE uint2 pack_four(const float4& v, float factor) {
  return make_uint2(pack_halves(to_half(v.x * factor), to_half(v.y * factor)),
                    pack_halves(to_half(v.z * factor), to_half(v.w * factor)));
}

DEVICE float2 load_float2(const float* p) { return *reinterpret_cast<const float2*>(p); }
DEVICE void store_float4(float* p, float4 v) { *reinterpret_cast<float4*>(p) = v; }

// tanh through exp2: absolute error about 1e-7, enough for a soft cap in front of a softmax.
DEVICE float tanh_approx(float x) {
  constexpr float two_log2_e = 2.885390082f;
  return 1.f - 2.f * reciprocal_approx(1.f + exp2_approx(two_log2_e * x));
}
