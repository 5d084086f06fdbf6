// One dependent chain of multiply-adds per thread, in one warp per block. Meant for: sol-sm.
#include "defect.h"

FLASHCORE_DEFECT(lazy) {
  if (threadIdx.x >= 32) return;
  for (int64_t i = blockIdx.x * int64_t{32} + threadIdx.x; i < p.n; i += int64_t{gridDim.x} * 32) {
    float chain = p.x[i];
    for (int step = 0; step < 4096; ++step) chain = fmaf(chain, 0.5f, p.x[i] * 0.5f);
    p.out[i] = p.a * p.x[i] + p.y[i] + (chain > 3.0e38f ? 1.0f : 0.0f);
  }
}
