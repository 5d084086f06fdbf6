// A block barrier that half of each warp never reaches. Meant for: synccheck.
#include "defect.h"

FLASHCORE_DEFECT(divergent) {
  FLASHCORE_FOR_EACH(i, p) { p.out[i] = p.a * p.x[i] + p.y[i]; }
  if (threadIdx.x % 32 < 16) return;
  __syncthreads();
}
