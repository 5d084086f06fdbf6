// Softmax of attention in E4M3 with the true maximum, as FlashAttention-3 subtracts it. The largest probability of a row is a power
// of two, which E4M3 holds exactly, and none saturates.
#pragma once

#include "flashcore/attention/e4m3/config.h"
#include "flashcore/attention/fp8.cuh"
#include "flashcore/attention/softmax.cuh"

namespace flashcore::attention::e4m3 {

constexpr float kLargestOffset = 8.0f;  // 2^8.807 is 448

// The scores of a lane lie in one buffer or in two.
constexpr int kScores = kTileN / 2;
constexpr int kWords = kScores / 4;
template <int kBuffers>
using Scores = float[kBuffers][kScores / kBuffers];

template <int kBuffers>
__device__ __forceinline__ float& score(Scores<kBuffers>& scores, int i) {
    return scores[i / (kScores / kBuffers)][i % (kScores / kBuffers)];
}

// NaN if one of them is.
__device__ __forceinline__ float max_nan(float a, float b) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
}
__device__ __forceinline__ float quad_max_nan(float value) {
    value = max_nan(value, __shfl_xor_sync(kFullWarpMask, value, 1));
    return max_nan(value, __shfl_xor_sync(kFullWarpMask, value, 2));
}

// The largest score of a row in this lane. Four chains, because each instruction waits for the one before.
template <int kBuffers>
__device__ __forceinline__ float lane_max(Scores<kBuffers>& scores, int r) {
    constexpr int kChains = 4;
    float chain[kChains];
#pragma unroll
    for (int i = 0; i < kScores / 4; ++i) {
        const float pair = max_nan(score<kBuffers>(scores, 4 * i + 2 * r), score<kBuffers>(scores, 4 * i + 2 * r + 1));
        chain[i % kChains] = i < kChains ? pair : max_nan(chain[i % kChains], pair);
    }
    return max_nan(max_nan(chain[0], chain[1]), max_nan(chain[2], chain[3]));
}

// State of a thread's rows: the largest score so far, and this thread's part of the sums.
struct State {
    float row_max[kRowsPerLane] = {minus_infinity(), minus_infinity()};
    float row_sum[kRowsPerLane] = {0.0f, 0.0f};
    bool precise = true;  // the maxima of the warp's rows are small enough for one rounding
};

// As update_row_max in attention/softmax.cuh without a threshold. A lane whose scores are below the maximum of its row has nothing
// to do, and most warps have only such lanes. Otherwise earlier sums are multiplied.
template <int kBuffers, class MultiplySums>
__device__ __forceinline__ void raise_row_max(Scores<kBuffers>& scores, State& state, float (&row_max_scaled)[kRowsPerLane],
                                              float scale, MultiplySums multiply_sums) {
    float block_max[kRowsPerLane];
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        block_max[r] = lane_max<kBuffers>(scores, r);
        row_max_scaled[r] = state.row_max[r] == minus_infinity() ? 0.0f : state.row_max[r] * scale;
    }
    if (__all_sync(kFullWarpMask, state.precise && block_max[0] <= state.row_max[0] && block_max[1] <= state.row_max[1])) return;

    Rescale rescale;
    float subtracted_max[kRowsPerLane];
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        const float row_max = quad_max_nan(max_nan(state.row_max[r], block_max[r]));
        subtracted_max[r] = row_max == minus_infinity() ? 0.0f : row_max;  // no key seen yet, and -inf minus -inf is NaN
        rescale.factor[r] = ptx::exp2_approx((state.row_max[r] - subtracted_max[r]) * scale);
        row_max_scaled[r] = subtracted_max[r] * scale;
        state.row_max[r] = row_max;
        state.row_sum[r] *= rescale.factor[r];
    }
    const bool precise = fmaxf(fabsf(row_max_scaled[0]), fabsf(row_max_scaled[1])) <= kMaxRowMaxScaled;
    state.precise = __all_sync(kFullWarpMask, precise);
    if (!state.precise) {
#pragma unroll
        for (int i = 0; i < kScores; ++i) score<kBuffers>(scores, i) -= subtracted_max[row_of(i)];
        row_max_scaled[0] = row_max_scaled[1] = 0.0f;
    }
    multiply_sums(rescale);
}

constexpr float kSmallestFactor = 1.17549435e-38f;

// The same if each KV block has its own scale: maxima are scaled ones, in powers of two. Whatever they are, exp2(score * scale - max)
// is rounded once. So large ones need no care.
template <int kBuffers, class MultiplySums>
__device__ __forceinline__ void raise_scaled_max(Scores<kBuffers>& scores, State& state, float (&row_max_scaled)[kRowsPerLane],
                                                 float scale, MultiplySums multiply_sums) {
    float block_max[kRowsPerLane];
    bool below = true;
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        block_max[r] = lane_max<kBuffers>(scores, r);
        block_max[r] *= scale;
        row_max_scaled[r] = state.row_max[r] == minus_infinity() ? 0.0f : state.row_max[r];
        below = below && block_max[r] <= state.row_max[r];
    }
    if (__all_sync(kFullWarpMask, below)) return;

    Rescale rescale;
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        const float row_max = quad_max_nan(max_nan(state.row_max[r], block_max[r]));
        row_max_scaled[r] = row_max == minus_infinity() ? 0.0f : row_max;  // no key seen yet, and -inf minus -inf is NaN
        rescale.factor[r] = ptx::exp2_approx(state.row_max[r] - row_max_scaled[r]);
        state.row_max[r] = row_max;
        state.row_sum[r] *= rescale.factor[r];
    }
    multiply_sums(rescale);
}

// 2^x on the FMA pipes for x = 128 y - 112 and y from 0 to 1, for which FFMA.SAT limits x. The relative error is 1e-4: E4M3 rounds
// at 2^-4. NaN gives a number, so the caller's maximum must be NaN then.
constexpr float kRange = 128.0f;
constexpr float kLowest = 112.0f;
__device__ __forceinline__ float exp2_polynomial(float y) {
    constexpr float kRound = 12582912.0f - kLowest;  // 1.5 * 2^23: the last bit of the sum counts ones
    const float rounded = fmaf(y, kRange, kRound);
    const float fraction = fmaf(y, kRange, kRound - rounded);
    float p = fmaf(fraction, 0.0550090f, 0.2422110f);
    p = fmaf(p, fraction, 0.6932829f);
    p = fmaf(p, fraction, 1.0f);
    return __int_as_float(__float_as_int(p) + (__float_as_int(rounded) << 23));
}

// Four E4M3 of numbers that are 2^-8 of them, without sign. The exponent of fp16 then has the bits of E4M3's, also below the
// smallest normal number: a byte is bits 7 to 14, rounded by half a unit. The conversion to E4M3 itself runs at the rate of exp2.
__device__ __forceinline__ uint32_t pack_through_half(float first, float second, float third, float fourth) {
    constexpr uint32_t kHalfUnits = 0x00800080;
    const uint32_t low = ptx::pack<__half>(first, second) * 2 + kHalfUnits;
    const uint32_t high = ptx::pack<__half>(third, fourth) * 2 + kHalfUnits;
    return __byte_perm(low, high, 0x7531);
}

// A word has four places of one row (attention/value_order.h).
template <class Tuning, int kBuffers>
__device__ __forceinline__ void exponentiate(Scores<kBuffers>& scores, const float (&row_max_scaled)[kRowsPerLane], float scale,
                                             float (&block_sum)[kRowsPerLane], uint32_t (&probabilities)[kWords]) {
    constexpr Softmax kSoftmax = Tuning::softmax;
    constexpr int kOf = 16;
    constexpr int kOffset = kSoftmax.offset - pack_shift(kSoftmax);
    const float shift[kRowsPerLane] = {kOffset - row_max_scaled[0], kOffset - row_max_scaled[1]};
    const float scale_y = scale * (1.0f / kRange);
    const float shift_y[kRowsPerLane] = {(shift[0] + kLowest) * (1.0f / kRange), (shift[1] + kLowest) * (1.0f / kRange)};
#pragma unroll
    for (int i = 0; i < kScores; i += 8) {
#pragma unroll
        for (int r = 0; r < kRowsPerLane; ++r) {
            float p[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float s = score<kBuffers>(scores, i + j / 2 * 4 + 2 * r + j % 2);
                const bool polynomial = (i + 4 * r + j) * kSoftmax.polynomials % kOf < kSoftmax.polynomials;
                p[j] = polynomial ? exp2_polynomial(__saturatef(fmaf(s, scale_y, shift_y[r])))
                                  : ptx::exp2_approx(fmaf(s, scale, shift[r]));
            }
            const float sum = (p[0] + p[1]) + (p[2] + p[3]);
            block_sum[r] = i == 0 ? sum : block_sum[r] + sum;
            probabilities[i / 4 + r] =
                kSoftmax.half_packing ? pack_through_half(p[0], p[1], p[2], p[3]) : ptx::pack_e4m3(p[0], p[1], p[2], p[3]);
        }
    }
}

}  // namespace flashcore::attention::e4m3
