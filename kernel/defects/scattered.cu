// Each thread reads its own rows, so a warp's loads touch 32 cache lines. Meant for: sol-dram.
#include "defect.h"

FLASHCORE_DEFECT(scattered) {
  constexpr int64_t kRow = 4096;
  const int64_t rows = (p.n + kRow - 1) / kRow;
  for (int64_t row = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; row < rows; row += int64_t{gridDim.x} * blockDim.x) {
    const int64_t end = row * kRow + kRow < p.n ? row * kRow + kRow : p.n;
    for (int64_t i = row * kRow; i < end; ++i) p.out[i] = p.a * p.x[i] + p.y[i];
  }
}
