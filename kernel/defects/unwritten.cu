// Does not write the last seven elements. Meant for: finite.
#include "defect.h"

FLASHCORE_DEFECT(unwritten) {
  FLASHCORE_FOR_EACH(i, p) {
    if (i < p.n - 7) p.out[i] = p.a * p.x[i] + p.y[i];
  }
}
