// Runs a CUDA kernel's own source on a CPU: each CUDA thread is a fiber, each shuffle, mma and barrier a meeting point.
//
// Between meeting points the threads run in random order, so a missing barrier shows as a wrong result for some seed.
// Shared memory starts as NaN and is followed by a guard. Blocks run one after the other.
#pragma once
#include <immintrin.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static

using std::max;
using std::min;

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct uint2 {
  unsigned x, y;
};
struct float2 {
  float x, y;
};
struct dim3 {
  unsigned x, y, z;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
template <class T>
T __ldg(const T* p) {
  return *p;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a * b) >> 32); }

namespace shim {
constexpr int kWarp = 32, kStackBytes = 1 << 17, kGuardBytes = 256;
constexpr unsigned char kNan = 0xff, kGuard = 0xa5;
enum class Outcome { ok = 0, deadlock = 1, shared_overrun = 2 };

// Threads wait here until `arrived` of them have come.
struct Meeting {
  std::vector<int> waiting;
};
struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  int thread;
};
struct Operands {
  uint32_t word[4];
};

struct Block {
  dim3 index{}, grid{};
  int threads = 0;
  std::vector<Fiber> fibers;
  std::vector<int> ready;  // threads that can run
  ucontext_t scheduler{};
  int current = 0, finished = 0;
  Meeting whole;
  std::vector<Meeting> warps;
  // Two sets of exchanged words, used in turn: a thread that runs ahead to the next exchange spoils nobody's reading.
  std::vector<Operands> exchange[2];
  std::vector<int> turn;
  std::vector<unsigned char> shared;
  std::mt19937 random;
  std::function<void()> body;
};
inline Block block;

inline void wait_at(Meeting& meeting, int needed) {
  meeting.waiting.push_back(block.current);
  if ((int)meeting.waiting.size() == needed) {
    block.ready.insert(block.ready.end(), meeting.waiting.begin(), meeting.waiting.end());
    meeting.waiting.clear();
  }
  swapcontext(&block.fibers[block.current].context, &block.scheduler);
}

inline void run_fiber() {
  block.body();
  block.finished++;
  swapcontext(&block.fibers[block.current].context, &block.scheduler);
}

inline void start_fibers() {
  block.ready.clear();
  block.finished = 0;
  block.whole = {};
  block.warps.assign(block.threads / kWarp, {});
  block.turn.assign(block.threads, 0);
  for (int thread = 0; thread < block.threads; thread++) {
    Fiber& fiber = block.fibers[thread];
    fiber.stack.resize(kStackBytes);
    fiber.thread = thread;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, run_fiber, 0);
    block.ready.push_back(thread);
  }
}

inline Outcome run_block(size_t shared_bytes) {
  block.shared.assign(shared_bytes + kGuardBytes + 16, kNan);
  unsigned char* base = (unsigned char*)(((uintptr_t)block.shared.data() + 15) & ~(uintptr_t)15);
  std::fill(base + shared_bytes, base + shared_bytes + kGuardBytes, kGuard);
  start_fibers();
  while (!block.ready.empty()) {
    std::swap(block.ready[block.random() % block.ready.size()], block.ready.back());
    block.current = block.ready.back();
    block.ready.pop_back();
    swapcontext(&block.scheduler, &block.fibers[block.current].context);
  }
  if (block.finished != block.threads) return Outcome::deadlock;
  for (int i = 0; i < kGuardBytes; i++)
    if (base[shared_bytes + i] != kGuard) return Outcome::shared_overrun;
  return Outcome::ok;
}

inline Outcome run_grid(dim3 grid, int threads, size_t shared_bytes, unsigned seed, std::function<void()> body) {
  block.grid = grid;
  block.threads = threads;
  block.fibers.resize(threads);
  block.exchange[0].resize(threads);
  block.exchange[1].resize(threads);
  block.random.seed(seed);
  block.body = std::move(body);
  for (unsigned z = 0; z < grid.z; z++)
    for (unsigned y = 0; y < grid.y; y++)
      for (unsigned x = 0; x < grid.x; x++) {
        block.index = {x, y, z};
        const Outcome outcome = run_block(shared_bytes);
        if (outcome != Outcome::ok) return outcome;
      }
  return Outcome::ok;
}

inline unsigned char* dynamic_shared() {
  return (unsigned char*)(((uintptr_t)block.shared.data() + 15) & ~(uintptr_t)15);
}
inline float from_half(uint16_t bits) { return _cvtsh_ss(bits); }
inline uint16_t to_half(float value) { return _cvtss_sh(value, 0); }  // 0: round to nearest even

// Every lane of the warp shows its words and sees those of the others.
inline const Operands* exchange(const Operands& mine) {
  const int thread = block.current, warp = thread / kWarp;
  std::vector<Operands>& words = block.exchange[block.turn[thread]];
  block.turn[thread] ^= 1;
  words[thread] = mine;
  wait_at(block.warps[warp], kWarp);
  return &words[warp * kWarp];
}

// mma.m8n8k4 by the fragment maps of the PTX manual; volta.cuh draws them.
inline void mma(float (&c)[8], unsigned a0, unsigned a1, unsigned b0, unsigned b1, bool a_is_row, bool b_is_column) {
  const int lane = block.current % kWarp, first = 4 * ((lane >> 2) & 3);
  const Operands* words = exchange({{a0, a1, b0, b1}});
  auto element = [&](int source, int operand, int i) {
    return from_half((uint16_t)(words[source].word[2 * operand + (i >> 1)] >> (16 * (i & 1))));
  };
  auto feeding_lane = [&](int index) { return first + (index & 3) + 16 * (index >> 2); };
  auto a = [&](int row, int k) {
    return a_is_row ? element(feeding_lane(row), 0, k) : element(first + k + 16 * (row >> 2), 0, row & 3);
  };
  auto b = [&](int k, int column) {
    return b_is_column ? element(feeding_lane(column), 1, k) : element(first + k + 16 * (column >> 2), 1, column & 3);
  };
  for (int i = 0; i < 8; i++) {
    const int row = (lane & 1) + (i & 2) + 4 * (lane >> 4), column = (i & 4) + (lane & 2) + (i & 1);
    for (int k = 0; k < 4; k++) c[i] += a(row, k) * b(k, column);
  }
}
}  // namespace shim

#define threadIdx (dim3{(unsigned)shim::block.current, 0, 0})
#define blockIdx (shim::block.index)
#define gridDim (shim::block.grid)
#define blockDim (dim3{(unsigned)shim::block.threads, 1, 1})

inline void __syncthreads() { shim::wait_at(shim::block.whole, shim::block.threads); }
inline void __syncwarp() { shim::exchange({}); }
template <class T>
T __shfl_sync(unsigned, T value, int source) {
  static_assert(sizeof(T) == 4);
  shim::Operands mine{};
  std::memcpy(mine.word, &value, 4);
  std::memcpy(&value, shim::exchange(mine)[source & 31].word, 4);
  return value;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int flip) {
  return __shfl_sync(mask, value, (shim::block.current % shim::kWarp) ^ flip);
}
