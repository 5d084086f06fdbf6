// Host side of the subject that borrows: its own kernel, and before it one of a library that another subject built.
#include <dlfcn.h>

#include "defect.h"

cudaError_t launch_defect_borrowing(const flashcore::defects::Problem&, cudaStream_t);

// Returns a cudaError_t. `library` is the file of the other subject, or null.
extern "C" __attribute__((visibility("default"))) int
flashcore_borrowing_launch(const char* library, const float* x, const float* y, float* out, int64_t n, float a, void* stream) {
  if (library != nullptr) {
    using Launch = int (*)(const char*, const float*, const float*, float*, const float*, int64_t, float, void*);
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    const auto launch = handle == nullptr ? nullptr : reinterpret_cast<Launch>(dlsym(handle, "flashcore_defect_launch"));
    if (launch == nullptr) return cudaErrorSharedObjectInitFailed;
    const int status = launch("sound", x, y, out, x, n, a, stream);
    if (status != cudaSuccess) return status;
  }
  const flashcore::defects::Problem problem{x, y, out, x, n, a, 0};
  return launch_defect_borrowing(problem, static_cast<cudaStream_t>(stream));
}
