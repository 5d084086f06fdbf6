// No defect. The control that must be green where the others are red.
#include "defect.h"

FLASHCORE_DEFECT(sound) {
  const auto* x = reinterpret_cast<const float4*>(p.x);
  const auto* y = reinterpret_cast<const float4*>(p.y);
  auto* out = reinterpret_cast<float4*>(p.out);
  const int64_t thread = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  for (int64_t i = thread; i < p.n / 4; i += int64_t{gridDim.x} * blockDim.x) {
    const float4 left = x[i];
    const float4 right = y[i];
    out[i] = {p.a * left.x + right.x, p.a * left.y + right.y, p.a * left.z + right.z, p.a * left.w + right.w};
  }
  const int64_t tail = p.n / 4 * 4 + thread;
  if (tail < p.n) p.out[tail] = p.a * p.x[tail] + p.y[tail];
}
