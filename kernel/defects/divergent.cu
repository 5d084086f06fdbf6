// Half of a warp skips a block barrier. The barrier comes before the work, because at the end the compiler would let the other
// half exit first, and exited threads count as arrived. Meant for: synccheck.
#include "defect.h"

FLASHCORE_DEFECT(divergent) {
  if (threadIdx.x < 48) __syncthreads();
  FLASHCORE_FOR_EACH(i, p) { p.out[i] = p.a * p.x[i] + p.y[i]; }
}
