// A value goes from warp to warp through shared memory without a barrier. Meant for: racecheck.
#include "defect.h"

FLASHCORE_DEFECT(race) {
  __shared__ volatile float exchange[flashcore::defects::kThreads];
  FLASHCORE_FOR_EACH(i, p) {
    exchange[threadIdx.x] = p.x[i];
    const float neighbour = exchange[(threadIdx.x + 32) % flashcore::defects::kThreads];
    p.out[i] = p.a * p.x[i] + p.y[i] + (__float_as_int(neighbour) == 0x7fc0dead ? 1.0f : 0.0f);
  }
}
