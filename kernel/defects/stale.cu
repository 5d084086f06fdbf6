// Reads uninitialised shared memory and does not use it. Meant for: initcheck.
#include "defect.h"

FLASHCORE_DEFECT(stale) {
  __shared__ volatile float exchange[flashcore::defects::kThreads];
  if (threadIdx.x % 2 == 0) exchange[threadIdx.x] = p.a;
  __syncthreads();
  FLASHCORE_FOR_EACH(i, p) {
    const float neighbour = exchange[threadIdx.x ^ 1];
    p.out[i] = p.a * p.x[i] + p.y[i] + (__float_as_int(neighbour) == 0x7fc0dead ? 1.0f : 0.0f);
  }
}
