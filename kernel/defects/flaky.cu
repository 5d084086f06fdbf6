// The last bit of one result per block depends on the clock. Meant for: repeatable.
#include "defect.h"

FLASHCORE_DEFECT(flaky) {
  FLASHCORE_FOR_EACH(i, p) {
    const float sound = p.a * p.x[i] + p.y[i];
    const int noise = threadIdx.x == 0 ? static_cast<int>(clock64() >> 4) & 1 : 0;
    p.out[i] = __int_as_float(__float_as_int(sound) ^ noise);
  }
}
