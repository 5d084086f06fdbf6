// Does not compile. Meant for: build.
#include "defect.h"

FLASHCORE_DEFECT(broken) {
  FLASHCORE_FOR_EACH(i, p) { p.out[i] = p.a * p.z[i] + p.y[i]; }
}
