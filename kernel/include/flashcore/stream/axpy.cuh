// out = a * x + y. Every byte crosses the memory bus once, in 16-byte accesses. Full multiprocessors keep enough of them in
// flight. Cache hints and persistent CTAs measured slower (kernel/TUNING.md).
#pragma once

#include "flashcore/core/launch.cuh"
#include "flashcore/stream/config.h"

namespace flashcore::stream {

// One tile. All loads are issued before the first use, so a thread keeps 2 x kVectors accesses in flight.
template <int kThreads, int kVectors>
__device__ __forceinline__ void axpy_tile(const Params& params, int64_t first, int64_t vectors) {
    const float4* x = reinterpret_cast<const float4*>(params.x);
    const float4* y = reinterpret_cast<const float4*>(params.y);
    float4* out = reinterpret_cast<float4*>(params.out);
    float4 left[kVectors];
    float4 right[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        const int64_t index = first + i * kThreads;
        if (index < vectors) {
            left[i] = x[index];
            right[i] = y[index];
        }
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        const int64_t index = first + i * kThreads;
        if (index < vectors) {
            out[index] = make_float4(fmaf(params.a, left[i].x, right[i].x), fmaf(params.a, left[i].y, right[i].y),
                                     fmaf(params.a, left[i].z, right[i].z), fmaf(params.a, left[i].w, right[i].w));
        }
    }
}

template <class Tuning>
__device__ __forceinline__ void axpy(const Params& params) {
    constexpr int kTile = vectors_per_tile(Tuning::config);
    const int64_t vectors = params.count / kFloatsPerVector;
    for (int64_t tile = blockIdx.x; tile * kTile < vectors; tile += gridDim.x) {
        axpy_tile<Tuning::config.threads, Tuning::config.vectors_per_thread>(params, tile * kTile + threadIdx.x, vectors);
    }
    const int64_t tail = vectors * kFloatsPerVector + threadIdx.x;  // at most three floats
    if (blockIdx.x == 0 && tail < params.count) params.out[tail] = fmaf(params.a, params.x[tail], params.y[tail]);
}

}  // namespace flashcore::stream
