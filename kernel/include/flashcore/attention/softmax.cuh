// Online softmax on a fragment of scores. A thread holds two rows of its warp's tile, r and r + 8: of every four consecutive
// accumulators the first two belong to r and the last two to r + 8. Four neighbouring lanes (a quad) share both rows.
#pragma once

#include <cstdint>

#include "flashcore/ptx/math.cuh"

namespace flashcore::attention {

constexpr int kRowsPerThread = 2;
constexpr int kQuadLanes = 4;
constexpr int kColumnsPerFragment = 8;  // columns that four accumulators of a quad cover
constexpr unsigned kWholeWarp = 0xFFFFFFFFu;
constexpr float kLn2 = 0.693147180559945309f;

__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xFF800000); }

__host__ __device__ constexpr int row_of(int accumulator) { return accumulator / 2 % kRowsPerThread; }

__device__ __forceinline__ float quad_max(float value) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, 1));
    return fmaxf(value, __shfl_xor_sync(kWholeWarp, value, 2));
}

__device__ __forceinline__ float quad_sum(float value) {
    value += __shfl_xor_sync(kWholeWarp, value, 1);
    return value + __shfl_xor_sync(kWholeWarp, value, 2);
}

// Running state of a thread's rows: the maximum of the raw scores, and this thread's share of the sum of exponentials.
struct Rows {
    float maximum[kRowsPerThread] = {minus_infinity(), minus_infinity()};
    float sum[kRowsPerThread] = {0.0f, 0.0f};
};

// What a row's earlier sum and output have to be multiplied by.
struct Rescale {
    float factor[kRowsPerThread];
};

// Scores of keys that a row may not see become -infinity, whatever they were. `visible` counts keys from this thread's first.
template <int kCount>
__device__ __forceinline__ void mask(float (&scores)[kCount], const int (&visible)[kRowsPerThread]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        const int column = i / 4 * kColumnsPerFragment + i % 2;
        if (column >= visible[row_of(i)]) scores[i] = minus_infinity();
    }
}

template <int kCount>
__device__ __forceinline__ void multiply(float (&values)[kCount], float factor) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] *= factor;
}

template <int kCount>
__device__ __forceinline__ void multiply(float (&values)[kCount], const Rescale& rescale) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] *= rescale.factor[row_of(i)];
}

// exp2(score * scale - offset) is one multiply-add and one exponential, but `offset` = maximum * scale is rounded: past this
// magnitude the rounding error would show in the exponent (2^-24 of it), and an infinite offset would give NaN.
constexpr float kLargestOffset = 65536.0f;

// Makes `offset` zero by subtracting the maximum from the scores first. Rare, so that a branch is cheaper than precision.
template <int kCount>
__device__ __forceinline__ void recentre(float (&scores)[kCount], const float (&centre)[kRowsPerThread],
                                         float (&offset)[kRowsPerThread]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) scores[i] -= centre[row_of(i)];
    offset[0] = offset[1] = 0.0f;
}

// Replaces scores by exp2(scale * (score - maximum)), and folds them into the running maximum and sum.
template <int kCount>
__device__ __forceinline__ Rescale exponentiate(float (&scores)[kCount], Rows& rows, float scale) {
    Rescale rescale;
    float centre[kRowsPerThread];
    float offset[kRowsPerThread];
#pragma unroll
    for (int r = 0; r < kRowsPerThread; ++r) {
        float maximum = rows.maximum[r];
#pragma unroll
        for (int i = 2 * r; i < kCount; i += 4) maximum = fmaxf(maximum, fmaxf(scores[i], scores[i + 1]));
        maximum = quad_max(maximum);
        centre[r] = maximum == minus_infinity() ? 0.0f : maximum;  // no key seen yet: -inf minus -inf would be NaN
        rescale.factor[r] = ptx::exp2_approx((rows.maximum[r] - centre[r]) * scale);
        offset[r] = centre[r] * scale;
        rows.maximum[r] = maximum;
        rows.sum[r] *= rescale.factor[r];
    }
    const bool precise = fmaxf(fabsf(offset[0]), fabsf(offset[1])) <= kLargestOffset;
    if (!__all_sync(kWholeWarp, precise)) recentre(scores, centre, offset);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        scores[i] = ptx::exp2_approx(fmaf(scores[i], scale, -offset[row_of(i)]));
        rows.sum[row_of(i)] += scores[i];
    }
    return rescale;
}

// The A operand of the second product: accumulator pairs of one row, in order.
template <class Element, int kCount>
__device__ __forceinline__ void pack(const float (&values)[kCount], uint32_t (&packed)[kCount / 2]) {
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) packed[i] = ptx::pack<Element>(values[2 * i], values[2 * i + 1]);
}

}  // namespace flashcore::attention
