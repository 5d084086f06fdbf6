// Every result is off by 0.01. Meant for: max-diff, error-ratio.
#include "defect.h"

FLASHCORE_DEFECT(wrong) {
  FLASHCORE_FOR_EACH(i, p) { p.out[i] = p.a * p.x[i] + p.y[i] + 0.01f; }
}
