// CUTLASS 2.x GEMMs for sm_70 with the tiles of the published builds: D = A * B, row-major halves with FP32
// accumulation, and a column-major SGEMM. They stand in for cuBLAS, whose parameter block is not documented.
//
// Needs CUTLASS's headers. Launch: grid (m / tile rows, n / tile columns); threads and shared memory: validation.py.
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/thread/linear_combination.h"
#include "cutlass/gemm/kernel/default_gemm.h"
#include "cutlass/gemm/threadblock/threadblock_swizzle.h"

using Half = cutlass::half_t;
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;
using Swizzle = cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<1>;

template <int kRows, int kColumns, int kWarpRows, int kWarpColumns>
struct HalfGemm {
  using Epilogue = cutlass::epilogue::thread::LinearCombination<Half, 8, float, float>;
  using Kernel = typename cutlass::gemm::kernel::DefaultGemm<
      Half, RowMajor, 8, Half, RowMajor, 8, Half, RowMajor, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm70,
      cutlass::gemm::GemmShape<kRows, kColumns, 32>, cutlass::gemm::GemmShape<kWarpRows, kWarpColumns, 32>,
      cutlass::gemm::GemmShape<8, 8, 4>, Epilogue, Swizzle, 2, false, cutlass::arch::OpMultiplyAdd>::GemmKernel;
};

template <int kRows, int kColumns>
__device__ __forceinline__ void half_gemm(Half* a, Half* b, Half* d, int m, int n, int k) {
  using Kernel = typename HalfGemm<kRows, kColumns, 64, 64>::Kernel;
  extern __shared__ char shared[];
  typename Kernel::Params params({m, n, k}, {(m + kRows - 1) / kRows, (n + kColumns - 1) / kColumns, 1}, {a, k}, {b, n},
                                 {d, n}, {d, n}, {1.0f, 0.0f});
  Kernel kernel;
  kernel(params, *reinterpret_cast<typename Kernel::SharedStorage*>(shared));
}

extern "C" __global__ void __launch_bounds__(256) gemm_128x256(Half* a, Half* b, Half* d, int m, int n, int k) {
  half_gemm<128, 256>(a, b, d, m, n, k);
}

extern "C" __global__ void __launch_bounds__(128) gemm_128x128(Half* a, Half* b, Half* d, int m, int n, int k) {
  half_gemm<128, 128>(a, b, d, m, n, k);
}

struct SingleGemm {
  using Epilogue = cutlass::epilogue::thread::LinearCombination<float, 1, float, float>;
  using Kernel = typename cutlass::gemm::kernel::DefaultGemm<
      float, ColumnMajor, 1, float, RowMajor, 1, float, RowMajor, float, cutlass::arch::OpClassSimt,
      cutlass::arch::Sm70, cutlass::gemm::GemmShape<128, 128, 8>, cutlass::gemm::GemmShape<32, 64, 8>,
      cutlass::gemm::GemmShape<1, 1, 1>, Epilogue, Swizzle, 2, false, cutlass::arch::OpMultiplyAdd>::GemmKernel;
};

extern "C" __global__ void __launch_bounds__(256, 2) sgemm_128x128(float* a, float* b, float* d, int m, int n, int k) {
  using Kernel = SingleGemm::Kernel;
  extern __shared__ char single_shared[];
  typename Kernel::Params params({m, n, k}, {m / 128, n / 128, 1}, {a, m}, {b, n}, {d, n}, {d, n}, {1.0f, 0.0f});
  Kernel kernel;
  kernel(params, *reinterpret_cast<typename Kernel::SharedStorage*>(single_shared));
}
