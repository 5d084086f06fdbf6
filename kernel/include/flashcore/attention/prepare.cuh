// Lays out a ragged batch for the attention kernel: one block sorts the sequences by length and numbers their tiles.
#pragma once

#include "flashcore/attention/plan.h"
#include "flashcore/attention/ragged.h"
#include "flashcore/core/launch.cuh"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::attention {

// Sequences are sorted by classes of length, eight to every power of two, the longest first. Within a class the order is any:
// nothing that is computed depends on it.
constexpr int kClasses = 256;

__device__ __forceinline__ int class_of(int length) {
    constexpr int kMantissaBits = 23;
    constexpr int kExponentOfOne = 127;
    constexpr int kClassBits = 3;
    const int bits = __float_as_int(static_cast<float>(length)) >> (kMantissaBits - kClassBits);
    return kClasses - 1 - max(0, bits - (kExponentOfOne << kClassBits) + 1);
}

// Numbers of tiles, which garbage in the lengths must not make overflow.
__device__ __forceinline__ int add(int one, int other) {
    return static_cast<int>(min(static_cast<unsigned>(one) + static_cast<unsigned>(other), static_cast<unsigned>(kTileLimit)));
}

struct Sums {
    int before;  // of all threads before this one
    int all;
};

// Over a whole block; `warps` has a number for each of its warps.
template <int kThreads>
__device__ __forceinline__ Sums sums_of(int value, int (&warps)[kThreads / kWarpThreads]) {
    static_assert(kThreads / kWarpThreads <= kWarpThreads, "the warps' sums are summed by one warp each");
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
    const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
#pragma unroll
    for (int distance = 1; distance < kWarpThreads; distance *= 2) {
        const int other = __shfl_up_sync(sm90::kWholeWarp, value, distance);
        if (lane >= distance) value = add(value, other);
    }
    if (lane == kWarpThreads - 1) warps[warp] = value;
    __syncthreads();
    const int own = __shfl_up_sync(sm90::kWholeWarp, value, 1);
    int all = lane < kThreads / kWarpThreads ? warps[lane] : 0;
    int before = lane < warp ? all : 0;
#pragma unroll
    for (int distance = 1; distance < kWarpThreads; distance *= 2) {
        all = add(all, __shfl_xor_sync(sm90::kWholeWarp, all, distance));
        before = add(before, __shfl_xor_sync(sm90::kWholeWarp, before, distance));
    }
    __syncthreads();  // `warps` may be written again
    return {lane > 0 ? add(before, own) : before, all};
}

// With the number of its own tiles in the place of its first tile's.
__device__ __forceinline__ Span span_with_tiles(const Ragged& ragged, int sequence) {
    const Extent q = extent_of(ragged.q, sequence);
    const Extent k = extent_of(ragged.k, sequence);
    const int row_tiles = (q.length + ragged.tile_m - 1) / ragged.tile_m;
    const auto group = static_cast<int>(group_size(ragged.causal, ragged.head_dim, k.length, ragged.heads));
    return {row_tiles * ragged.heads, row_tiles, group, q.end, k.end, q.length, k.length};
}

template <int kThreads>
__device__ __forceinline__ void prepare(const Ragged& ragged) {
    __shared__ int places[kClasses];  // sequences of each class, then where the next one of it goes
    __shared__ int warps[kThreads / kWarpThreads];
    static_assert(kClasses <= kThreads, "each class is one thread's");
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kClasses) places[thread] = 0;
    __syncthreads();
    for (int i = thread; i < ragged.batch; i += kThreads) atomicAdd(&places[class_of(extent_of(ragged.k, i).length)], 1);
    __syncthreads();
    const int place = sums_of<kThreads>(thread < kClasses ? places[thread] : 0, warps).before;
    if (thread < kClasses) places[thread] = place;
    __syncthreads();
    for (int i = thread; i < ragged.batch; i += kThreads) {
        const Span span = span_with_tiles(ragged, i);
        ragged.spans[atomicAdd(&places[class_of(span.sk)], 1)] = span;
    }
    __syncthreads();
    int tiles = 0;
    for (int first = 0; first < ragged.batch; first += kThreads) {
        const int i = first + thread;
        const Sums sums = sums_of<kThreads>(i < ragged.batch ? ragged.spans[i].first_tile : 0, warps);
        if (i < ragged.batch) ragged.spans[i].first_tile = add(tiles, sums.before);
        tiles = add(tiles, sums.all);
    }
    if (thread > 0) return;
    ragged.spans[ragged.batch].first_tile = tiles;
    *ragged.tickets = {0, 0};
}

}  // namespace flashcore::attention
