// As much of the runtime's header as the kernels' pure headers name, and of the language, for a compiler that has no CUDA.
#pragma once

#include <algorithm>

#define __device__
#define __forceinline__ inline

using cudaError_t = int;
using cudaStream_t = void*;
using std::max;
using std::min;

struct Dimension {
    unsigned x;
};
inline Dimension blockIdx{};
inline Dimension gridDim{};

inline unsigned atomicAdd(unsigned* counter, unsigned amount) {
    const unsigned before = *counter;
    *counter += amount;
    return before;
}
inline void __threadfence() {}
