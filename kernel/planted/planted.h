// A build of the kernels with more to do: how much is a number of the launch, so that one binary serves every level.
#pragma once

#include <cuda_runtime_api.h>

namespace flashcore::planted {

// What the next launches have to do besides: multiply-adds of every thread (attention), or blocks that repeat a tile (stream).
int extra();

template <class Params>
struct Planted {
    Params params;
    int extra;
};

// Multiply-adds, each waiting for the one before it. Their result is never negative, which the compiler cannot know.
__device__ __forceinline__ void work(int steps) {
    float value = static_cast<float>(threadIdx.x);
#pragma unroll 1
    for (int step = 0; step < steps; ++step) value = fmaf(value, value, value);
    if (value < 0.0f) __trap();
}

}  // namespace flashcore::planted
