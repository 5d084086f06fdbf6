// Online softmax on a fragment of scores. sm90/fragment.cuh has the layout of fragments.
#pragma once

#include <cstdint>

#include "flashcore/ptx/math.cuh"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::attention {

using sm90::kQuadLanes, sm90::kRowsPerLane, sm90::kFullWarpMask, sm90::minus_infinity, sm90::quad_max, sm90::quad_sum;

__device__ __forceinline__ float not_a_number() { return __int_as_float(0x7FFFFFFF); }

__host__ __device__ constexpr int row_of(int accumulator) { return accumulator / 2 % kRowsPerLane; }

// Softmax state of a thread's rows: the subtracted max, the same scaled, and this thread's part of the sum of exponentials.
// row_max_scaled is NaN if speculation is not possible: no key was seen yet, or the product is too large.
struct SoftmaxState {
    float row_max[kRowsPerLane] = {minus_infinity(), minus_infinity()};
    float row_max_scaled[kRowsPerLane] = {not_a_number(), not_a_number()};
    float row_sum[kRowsPerLane] = {0.0f, 0.0f};
};

// Factors of a row's earlier sum and output. `needed` is the same in the whole warp.
struct Rescale {
    float factor[kRowsPerLane] = {1.0f, 1.0f};
    bool needed = false;
};

// Sets scores of keys that a row may not see to -infinity, whatever they were. `visible` counts keys from this thread's first.
template <int kCount>
__device__ __forceinline__ void mask(float (&scores)[kCount], const int (&visible)[kRowsPerLane]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        const int column = i / 4 * sm90::kMmaN + i % 2;
        if (column >= visible[row_of(i)]) scores[i] = minus_infinity();
    }
}

// The same with a limit on both sides: keys first .. last - 1 are visible, counted like that.
template <int kCount>
__device__ __forceinline__ void mask(float (&scores)[kCount], const int (&first)[kRowsPerLane], const int (&last)[kRowsPerLane]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        const int column = i / 4 * sm90::kMmaN + i % 2;
        if (column < first[row_of(i)] || column >= last[row_of(i)]) scores[i] = minus_infinity();
    }
}

template <int kCount>
__device__ __forceinline__ void zero(float (&values)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = 0.0f;
}

template <int kCount>
__device__ __forceinline__ void add(float (&values)[kCount], const float (&terms)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] += terms[i];
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

// exp2(score * scale - row_max_scaled) is one multiply-add and one exponential, but row_max_scaled is rounded. Beyond this
// magnitude the rounding error (2^-24 of it) would be visible in the exponent, and infinity would give NaN.
constexpr float kMaxRowMaxScaled = 65536.0f;

// Subtracts the max from the scores first and makes row_max_scaled zero. Rarely needed, so a branch costs less than more
// precision everywhere.
template <int kCount>
__device__ __forceinline__ void subtract_max(float (&scores)[kCount], const float (&subtracted_max)[kRowsPerLane],
                                             float (&row_max_scaled)[kRowsPerLane]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) scores[i] -= subtracted_max[row_of(i)];
    row_max_scaled[0] = row_max_scaled[1] = 0.0f;
}

// Finds what to subtract from the scaled scores so that exp2 stays in range. It is the largest score seen, or a smaller one that
// no score exceeds by more than rescale_threshold. Exponentials may then reach 2^kRescaleThresholdLog2, which the sums and both
// element types hold. So most iterations need neither the maximum of a whole row nor a rescale. Every choice gives the same
// quotient, so this costs no precision.
template <int kCount>
__device__ __forceinline__ Rescale update_row_max(float (&scores)[kCount], SoftmaxState& state,
                                                  float (&row_max_scaled)[kRowsPerLane], float scale, float rescale_threshold) {
    Rescale rescale;
    float block_max[kRowsPerLane];
    bool within_threshold = true;
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        block_max[r] = fmaxf(scores[2 * r], scores[2 * r + 1]);
#pragma unroll
        for (int i = 2 * r + 4; i < kCount; i += 4) block_max[r] = fmaxf(block_max[r], fmaxf(scores[i], scores[i + 1]));
        row_max_scaled[r] = state.row_max[r] == minus_infinity() ? 0.0f : state.row_max[r] * scale;
        within_threshold = within_threshold && block_max[r] <= state.row_max[r] + rescale_threshold &&
                           fabsf(row_max_scaled[r]) <= kMaxRowMaxScaled;
    }
    if (__all_sync(kFullWarpMask, within_threshold)) return rescale;

    rescale.needed = true;
    float subtracted_max[kRowsPerLane];
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        const float row_max = quad_max(fmaxf(state.row_max[r], block_max[r]));
        subtracted_max[r] = row_max == minus_infinity() ? 0.0f : row_max;  // no key seen yet, and -inf minus -inf is NaN
        rescale.factor[r] = ptx::exp2_approx((state.row_max[r] - subtracted_max[r]) * scale);
        row_max_scaled[r] = subtracted_max[r] * scale;
        state.row_max[r] = row_max;
        state.row_sum[r] *= rescale.factor[r];
    }
    const bool precise = __all_sync(kFullWarpMask, fmaxf(fabsf(row_max_scaled[0]), fabsf(row_max_scaled[1])) <= kMaxRowMaxScaled);
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        state.row_max_scaled[r] = precise && state.row_max[r] > minus_infinity() ? row_max_scaled[r] : not_a_number();
    }
    if (!precise) subtract_max(scores, subtracted_max, row_max_scaled);
    return rescale;
}

// exp2(scale * score - row_max_scaled): the sums, and the A operand of PV, rounded and packed in pairs of one row. The sums take
// unrounded values, because the log-sum-exp shows their error and fp16 rounds at 2^-11. They cover this block only, because a
// large running sum would swallow small terms one by one.
template <class Element, int kCount>
__device__ __forceinline__ void exponentiate(const float (&scores)[kCount], const float (&row_max_scaled)[kRowsPerLane],
                                             float scale, float (&block_sum)[kRowsPerLane],
                                             uint32_t (&probabilities)[kCount / 2]) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
        const int r = row_of(i);
        const float low = ptx::exp2_approx(fmaf(scores[i], scale, -row_max_scaled[r]));
        const float high = ptx::exp2_approx(fmaf(scores[i + 1], scale, -row_max_scaled[r]));
        block_sum[r] = i < 2 * kRowsPerLane ? low + high : block_sum[r] + (low + high);
        probabilities[i / 2] = ptx::pack<Element>(low, high);
    }
}

// Limit of the exponentials of a speculative iteration. Both element types and the sums hold it.
constexpr float kMaxExponential = 32768.0f;

// Whether all exponentials of a thread are below the limit. They are not negative, so their sums tell. NaN is not in range.
__device__ __forceinline__ bool in_range(const float (&block_sum)[kRowsPerLane]) {
    return block_sum[0] < kMaxExponential && block_sum[1] < kMaxExponential;
}

}  // namespace flashcore::attention
