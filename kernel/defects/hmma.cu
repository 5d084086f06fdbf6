// Multiplies matrices by mma.sync, the tensor core instruction of an earlier generation. Meant for: instructions.
#include "defect.h"

FLASHCORE_DEFECT(hmma) {
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  const uint32_t ones = 0x3C003C00;  // two fp16 ones
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(ones));
  FLASHCORE_FOR_EACH(i, p) { p.out[i] = p.a * p.x[i] + p.y[i] + (d[0] - 16.0f); }
}
