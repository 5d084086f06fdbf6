// Common code of the planted defects: out = a * x + y over n floats, one launch function per kernel.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace flashcore::defects {

struct Problem {
  const float* x;        // (n)
  const float* y;        // (n)
  float* out;            // (n)
  const float* scratch;  // (n), never written
  int64_t n;
  float a;
  uint32_t process;  // the process id, the same for every launch of one process
};

inline constexpr int kThreads = 256;
inline constexpr int kBlocks = 1056;  // eight per multiprocessor on the H100 and H200, as many as fit

using Launch = cudaError_t (*)(const Problem&, cudaStream_t);

}  // namespace flashcore::defects

// Defines the entry function `defect_NAME` with the body that follows, and its launch function.
#define FLASHCORE_DEFECT(NAME)                                                                           \
  extern "C" __global__ void defect_##NAME(flashcore::defects::Problem p);                               \
  cudaError_t launch_defect_##NAME(const flashcore::defects::Problem& p, cudaStream_t stream) {          \
    defect_##NAME<<<flashcore::defects::kBlocks, flashcore::defects::kThreads, 0, stream>>>(p);          \
    return cudaGetLastError();                                                                           \
  }                                                                                                      \
  extern "C" __global__ void __launch_bounds__(flashcore::defects::kThreads)                             \
      defect_##NAME(flashcore::defects::Problem p)

// The grid-stride loop over all elements.
#define FLASHCORE_FOR_EACH(i, p)                                                                \
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < (p).n; i += int64_t{gridDim.x} * blockDim.x)
