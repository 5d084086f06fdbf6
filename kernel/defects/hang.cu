// Waits for a flag that is never set. Meant for: a FAIL with the reason `hang`, for any gate.
#include "defect.h"

FLASHCORE_DEFECT(hang) {
  while (*static_cast<const volatile float*>(p.x) != 12345.0f) __nanosleep(1000);
  FLASHCORE_FOR_EACH(i, p) { p.out[i] = p.a * p.x[i] + p.y[i]; }
}
