// Stores the number that flashcore::planted::extra() returns.
#include "flashcore/core/export.h"
#include "planted.h"

namespace {
int extra_of_next_launches = 0;
}

namespace flashcore::planted {
int extra() { return extra_of_next_launches; }
}  // namespace flashcore::planted

FLASHCORE_API void flashcore_planted_extra(int extra) { extra_of_next_launches = extra; }
