// Compiles, but defines an entry function that build() does not name. Meant for: build.
#include "defect.h"

FLASHCORE_DEFECT(named) {
  FLASHCORE_FOR_EACH(i, p) { p.out[i] = p.a * p.x[i] + p.y[i]; }
}

FLASHCORE_DEFECT(unnamed) {
  FLASHCORE_FOR_EACH(i, p) { p.out[i] = p.a * p.x[i]; }
}
