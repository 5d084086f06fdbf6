// Writes one element past the end of the output. Meant for: memcheck.
#include "defect.h"

FLASHCORE_DEFECT(overwrite) {
  FLASHCORE_FOR_EACH(i, p) {
    p.out[i] = p.a * p.x[i] + p.y[i];
    if (i == p.n - 1) p.out[i + 1] = 0.0f;
  }
}
