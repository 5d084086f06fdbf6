// The part of the runtime's header and of the language that pure kernel headers use, for a compiler without CUDA.
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
