// A build of the kernels with extra work. The amount is an argument of the launch, so one binary serves every level.
#pragma once

#include <cuda_runtime_api.h>

namespace flashcore::planted {

// Extra work of the next launches: multiply-adds of every thread (attention), or blocks that repeat a tile (stream).
int extra();

template <class Params>
struct Planted {
    Params params;
    int extra;
};

// A dependent chain of multiply-adds. The result is never negative, but the compiler cannot know that.
__device__ __forceinline__ void work(int steps) {
    float value = static_cast<float>(threadIdx.x);
#pragma unroll 1
    for (int step = 0; step < steps; ++step) value = fmaf(value, value, value);
    if (value < 0.0f) __trap();
}

}  // namespace flashcore::planted
