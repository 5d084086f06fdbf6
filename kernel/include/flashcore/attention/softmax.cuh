// Online softmax on a fragment of scores (sm90/fragment.cuh says who holds which of them).
#pragma once

#include <cstdint>

#include "flashcore/ptx/math.cuh"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::attention {

using sm90::kQuadLanes, sm90::kRowsPerLane, sm90::kWholeWarp, sm90::minus_infinity, sm90::quad_max, sm90::quad_sum;

__device__ __forceinline__ float not_a_number() { return __int_as_float(0x7FFFFFFF); }

__host__ __device__ constexpr int row_of(int accumulator) { return accumulator / 2 % kRowsPerLane; }

// Running state of a thread's rows: the score that is subtracted, the same scaled (NaN where a step has to look at its maximum
// first: no key was seen yet, or the product is too large), and this thread's share of the sum of exponentials.
struct Rows {
    float maximum[kRowsPerLane] = {minus_infinity(), minus_infinity()};
    float offset[kRowsPerLane] = {not_a_number(), not_a_number()};
    float sum[kRowsPerLane] = {0.0f, 0.0f};
};

// What a row's earlier sum and output have to be multiplied by. The same in a whole warp: whether anything has to be.
struct Rescale {
    float factor[kRowsPerLane] = {1.0f, 1.0f};
    bool needed = false;
};

// Scores of keys that a row may not see become -infinity, whatever they were. `visible` counts keys from this thread's first.
template <int kCount>
__device__ __forceinline__ void mask(float (&scores)[kCount], const int (&visible)[kRowsPerLane]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        const int column = i / 4 * sm90::kMmaColumns + i % 2;
        if (column >= visible[row_of(i)]) scores[i] = minus_infinity();
    }
}

template <int kCount>
__device__ __forceinline__ void clear(float (&values)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = 0.0f;
}

template <int kCount>
__device__ __forceinline__ void add(float (&values)[kCount], const float (&more)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] += more[i];
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
__device__ __forceinline__ void recentre(float (&scores)[kCount], const float (&centre)[kRowsPerLane],
                                         float (&offset)[kRowsPerLane]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) scores[i] -= centre[row_of(i)];
    offset[0] = offset[1] = 0.0f;
}

// What is subtracted from the scaled scores, so that exp2 stays in range: the largest score seen, or one that it exceeds by at
// most `slack`. Exponentials may then reach 2^kSlackLog2, which the sums and both element types hold, and most steps need
// neither the maximum of a whole row nor a rescale. Any offset gives the same quotient, so this costs no precision.
template <int kCount>
__device__ __forceinline__ Rescale raise_maximum(float (&scores)[kCount], Rows& rows, float (&offset)[kRowsPerLane], float scale,
                                                 float slack) {
    Rescale rescale;
    float largest[kRowsPerLane];
    bool settled = true;
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        largest[r] = fmaxf(scores[2 * r], scores[2 * r + 1]);
#pragma unroll
        for (int i = 2 * r + 4; i < kCount; i += 4) largest[r] = fmaxf(largest[r], fmaxf(scores[i], scores[i + 1]));
        offset[r] = rows.maximum[r] == minus_infinity() ? 0.0f : rows.maximum[r] * scale;
        settled = settled && largest[r] <= rows.maximum[r] + slack && fabsf(offset[r]) <= kLargestOffset;
    }
    if (__all_sync(kWholeWarp, settled)) return rescale;

    rescale.needed = true;
    float centre[kRowsPerLane];
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        const float maximum = quad_max(fmaxf(rows.maximum[r], largest[r]));
        centre[r] = maximum == minus_infinity() ? 0.0f : maximum;  // no key seen yet: -inf minus -inf would be NaN
        rescale.factor[r] = ptx::exp2_approx((rows.maximum[r] - centre[r]) * scale);
        offset[r] = centre[r] * scale;
        rows.maximum[r] = maximum;
        rows.sum[r] *= rescale.factor[r];
    }
    const bool precise = __all_sync(kWholeWarp, fmaxf(fabsf(offset[0]), fabsf(offset[1])) <= kLargestOffset);
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        rows.offset[r] = precise && rows.maximum[r] > minus_infinity() ? offset[r] : not_a_number();
    }
    if (!precise) recentre(scores, centre, offset);
    return rescale;
}

// exp2(scale * score - offset): their sums, and, rounded and in pairs of one row, the A operand of the second product. The sums
// take what is not yet rounded, because the log-sum-exp shows their error: 2^-11 of fp16 is a hundred times float32's. And they
// are of this step alone, because a large sum so far would swallow small terms one by one.
template <class Element, int kCount>
__device__ __forceinline__ void exponentiate(const float (&scores)[kCount], const float (&offset)[kRowsPerLane], float scale,
                                             float (&sum)[kRowsPerLane], uint32_t (&probabilities)[kCount / 2]) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
        const int r = row_of(i);
        const float low = ptx::exp2_approx(fmaf(scores[i], scale, -offset[r]));
        const float high = ptx::exp2_approx(fmaf(scores[i + 1], scale, -offset[r]));
        sum[r] = i < 2 * kRowsPerLane ? low + high : sum[r] + (low + high);
        probabilities[i / 2] = ptx::pack<Element>(low, high);
    }
}

// An optimistic step's exponentials must stay below this, which both element types and the sums hold.
constexpr float kLargestExponential = 32768.0f;

// Whether all of a thread's exponentials, none of them negative, do: their sums say it. NaN is not small.
__device__ __forceinline__ bool small(const float (&sum)[kRowsPerLane]) {
    return sum[0] < kLargestExponential && sum[1] < kLargestExponential;
}

}  // namespace flashcore::attention
