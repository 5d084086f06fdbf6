// Traps. Meant for: a FAIL with the reason `crash` or `raised`, for any gate.
#include "defect.h"

FLASHCORE_DEFECT(trap) {
  if (blockIdx.x == 1) __trap();
  FLASHCORE_FOR_EACH(i, p) { p.out[i] = p.a * p.x[i] + p.y[i]; }
}
