// No defect: the control that must be green where the others are red.
#include "defect.h"

FLASHCORE_DEFECT(sound) {
  FLASHCORE_FOR_EACH(i, p) { p.out[i] = p.a * p.x[i] + p.y[i]; }
}
