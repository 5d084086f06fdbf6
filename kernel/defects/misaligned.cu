// Reads eight bytes from an address that is a multiple of four. Meant for: memcheck.
#include "defect.h"

FLASHCORE_DEFECT(misaligned) {
  FLASHCORE_FOR_EACH(i, p) {
    float2 pair = {0.0f, 0.0f};
    if (i == 1) asm volatile("ld.global.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "l"(p.x + i));
    p.out[i] = p.a * p.x[i] + p.y[i] + (__float_as_int(pair.x) == 0x7fc0dead && __float_as_int(pair.y) == 0x7fc0dead ? 1.0f : 0.0f);
  }
}
