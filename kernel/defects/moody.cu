// Makes one to four passes over the data, depending on the process id. Meant for: stability.
#include "defect.h"

FLASHCORE_DEFECT(moody) {
  const uint32_t passes = 1 + p.process % 4;
  for (uint32_t pass = 0; pass < passes; ++pass) {
    FLASHCORE_FOR_EACH(i, p) { *static_cast<volatile float*>(p.out + i) = p.a * p.x[i] + p.y[i]; }
  }
}
