// Reads one element past the end and does not use it. Meant for: memcheck.
#include "defect.h"

FLASHCORE_DEFECT(overrun) {
  FLASHCORE_FOR_EACH(i, p) {
    const float next = *static_cast<const volatile float*>(p.x + i + 1);
    p.out[i] = p.a * p.x[i] + p.y[i] + (__float_as_int(next) == 0x7fc0dead ? 1.0f : 0.0f);
  }
}
