// Host side of the planted defects: one C function that looks up a launch function by name.
#include <unistd.h>

#include <cstring>

#include "defect.h"

#define FLASHCORE_EACH_DEFECT(X)                                                                    \
  X(sound) X(wrong) X(unwritten) X(flaky) X(overrun) X(overwrite) X(misaligned) X(race)             \
  X(divergent) X(uninitialised) X(stale) X(scattered) X(lazy) X(moody) X(hang) X(third) X(trap)     \
  X(spills) X(hmma)

#define FLASHCORE_DECLARE(NAME) cudaError_t launch_defect_##NAME(const flashcore::defects::Problem&, cudaStream_t);
FLASHCORE_EACH_DEFECT(FLASHCORE_DECLARE)

namespace {

struct Named {
  const char* name;
  flashcore::defects::Launch launch;
};

#define FLASHCORE_ROW(NAME) {#NAME, launch_defect_##NAME},
constexpr Named kDefects[] = {FLASHCORE_EACH_DEFECT(FLASHCORE_ROW)};

}  // namespace

// Returns a cudaError_t. An unknown name gives cudaErrorInvalidValue.
extern "C" __attribute__((visibility("default"))) int
flashcore_defect_launch(const char* name, const float* x, const float* y, float* out, const float* scratch,
                                       int64_t n, float a, void* stream) {
  const flashcore::defects::Problem problem{x, y, out, scratch, n, a, static_cast<uint32_t>(getpid())};
  for (const Named& defect : kDefects) {
    if (std::strcmp(defect.name, name) == 0) return defect.launch(problem, static_cast<cudaStream_t>(stream));
  }
  return cudaErrorInvalidValue;
}
