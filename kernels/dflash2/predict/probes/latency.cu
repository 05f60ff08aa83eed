// Dependent-latency and bandwidth probes, the timing model's first validation rows. sm_70; no headers.
//
//   *_dependent   a chain of kChain operations, each waiting for the one before; cycles[0] = clock around the chain
//   copy, triad   streams of 16 bytes a thread: b = a, and c = a + k * b
//
// Launch: probes <<<1, 32>>>, streams <<<n / 256, 256>>>. No dynamic shared memory.
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int kChain = 32;
constexpr int kIndependent = 4;  // accumulators in flight in mma_independent

// accumulator += A * B on the tensor cores, one m8n8k4 product a quad-pair.
__device__ __forceinline__ void mma_m8n8k4(float (&c)[8], u32 a0, u32 a1, u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0,%1,%2,%3,%4,%5,%6,%7},{%8,%9},{%10,%11},"
      "{%0,%1,%2,%3,%4,%5,%6,%7};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
      : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
}

extern "C" __global__ void mma_dependent(u64* cycles, float* out, u32 a, u32 b) {
  float c[8];
  for (int i = 0; i < 8; i++) c[i] = threadIdx.x;
  u64 start = clock64();
#pragma unroll
  for (int i = 0; i < kChain; i++) mma_m8n8k4(c, a, a + 1, b, b + 1);
  u64 end = clock64();
  cycles[0] = end - start;
  float sum = 0;
  for (int i = 0; i < 8; i++) sum += c[i];
  out[threadIdx.x] = sum;
}

extern "C" __global__ void mma_independent(u64* cycles, float* out, u32 a, u32 b) {
  float c[kIndependent][8];
  for (int j = 0; j < kIndependent; j++)
    for (int i = 0; i < 8; i++) c[j][i] = threadIdx.x;
  u64 start = clock64();
#pragma unroll
  for (int i = 0; i < kChain; i++)
    for (int j = 0; j < kIndependent; j++) mma_m8n8k4(c[j], a, a + 1, b, b + 1);
  u64 end = clock64();
  cycles[0] = end - start;
  float sum = 0;
  for (int j = 0; j < kIndependent; j++)
    for (int i = 0; i < 8; i++) sum += c[j][i];
  out[threadIdx.x] = sum;
}

// Each lane follows a chain of indices through shared memory.
extern "C" __global__ void shared_load_dependent(u64* cycles, float* out) {
  __shared__ volatile u32 next[32];
  next[threadIdx.x] = (threadIdx.x + 1) & 31;
  __syncwarp();
  u32 at = threadIdx.x;
  u64 start = clock64();
#pragma unroll
  for (int i = 0; i < kChain; i++) at = next[at];
  u64 end = clock64();
  cycles[0] = end - start;
  out[threadIdx.x] = at;
}

// The same through global memory, past L1 (.cg), so that every load is an L2 hit.
extern "C" __global__ void global_load_dependent(const u32* next, u64* cycles, float* out) {
  u32 at = threadIdx.x;
  u64 start = clock64();
#pragma unroll
  for (int i = 0; i < kChain; i++) {
    u32 value;
    asm volatile("ld.global.cg.u32 %0,[%1];" : "=r"(value) : "l"(next + at));
    at = value;
  }
  u64 end = clock64();
  cycles[0] = end - start;
  out[threadIdx.x] = at;
}

// A value handed from lane to lane through shared memory: store, then the neighbour's load.
extern "C" __global__ void shared_round_trip(u64* cycles, float* out) {
  __shared__ volatile u32 mailbox[32];
  u32 value = threadIdx.x;
  u64 start = clock64();
#pragma unroll
  for (int i = 0; i < kChain; i++) {
    mailbox[threadIdx.x] = value;
    __syncwarp();
    value = mailbox[(threadIdx.x + 1) & 31] + 1;
    __syncwarp();
  }
  u64 end = clock64();
  cycles[0] = end - start;
  out[threadIdx.x] = value;
}

extern "C" __global__ void copy(const uint4* a, uint4* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[i];
}

extern "C" __global__ void triad(const float4* a, const float4* b, float4* c, float k, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float4 x = a[i], y = b[i];
    c[i] = make_float4(x.x + k * y.x, x.y + k * y.y, x.z + k * y.z, x.w + k * y.w);
  }
}
