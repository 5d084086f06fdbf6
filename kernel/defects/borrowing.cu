// No defect in itself. Its subject also launches a kernel of another subject.
#include "defect.h"

FLASHCORE_DEFECT(borrowing) {
  FLASHCORE_FOR_EACH(i, p) { p.out[i] = p.a * p.x[i] + p.y[i]; }
}
