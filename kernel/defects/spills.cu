// Keeps more values alive than its registers hold, and declares a budget of 24. Meant for: spills, local-memory, registers.
#include "defect.h"

extern "C" __global__ void defect_spills(flashcore::defects::Problem p);
cudaError_t launch_defect_spills(const flashcore::defects::Problem& p, cudaStream_t stream) {
  defect_spills<<<flashcore::defects::kBlocks, flashcore::defects::kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}
extern "C" __global__ void __launch_bounds__(flashcore::defects::kThreads, 8) defect_spills(flashcore::defects::Problem p) {
  constexpr int kAlive = 96;
  FLASHCORE_FOR_EACH(i, p) {
    float kept[kAlive];
#pragma unroll
    for (int j = 0; j < kAlive; ++j) kept[j] = *static_cast<const volatile float*>(p.x + (i + j) % p.n);
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kAlive; ++j) sum += kept[j] * kept[kAlive - 1 - j];
    p.out[i] = p.a * p.x[i] + p.y[i] + (sum > 3.0e38f ? 1.0f : 0.0f);
  }
}
