// A block barrier that half of a warp never reaches. Meant for: synccheck.
#include "defect.h"

FLASHCORE_DEFECT(divergent) {
  FLASHCORE_FOR_EACH(i, p) { p.out[i] = p.a * p.x[i] + p.y[i]; }
  if (threadIdx.x < 48) __syncthreads();
}
