// Reads uninitialised global memory and does not use it. Meant for: initcheck.
#include "defect.h"

FLASHCORE_DEFECT(uninitialised) {
  FLASHCORE_FOR_EACH(i, p) {
    const float stale = *static_cast<const volatile float*>(p.scratch + i);
    p.out[i] = p.a * p.x[i] + p.y[i] + (__float_as_int(stale) == 0x7fc0dead ? 1.0f : 0.0f);
  }
}
