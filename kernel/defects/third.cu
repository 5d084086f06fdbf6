// Traps in its third launch only. Meant for: a FAIL with the reason `crash`, for any gate.
#include "defect.h"

__device__ unsigned launches;

FLASHCORE_DEFECT(third) {
  if (blockIdx.x == 0 && threadIdx.x == 0 && ++launches == 3) __trap();
  FLASHCORE_FOR_EACH(i, p) { p.out[i] = p.a * p.x[i] + p.y[i]; }
}
