// Softmax of attention in E4M3 with the true maximum, as FlashAttention-3 subtracts it. The largest probability of a row is a power
// of two, which E4M3 holds exactly, and none saturates.
#pragma once

#include "flashcore/attention/e4m3/config.h"
#include "flashcore/attention/fp8.cuh"
#include "flashcore/attention/softmax.cuh"

namespace flashcore::attention::e4m3 {

constexpr float kLargestOffset = 8.0f;  // 2^8.807 is 448

// The scores of a lane lie in one buffer or in two. The first one has kFirst of them.
constexpr int kScores = kTileN / 2;
constexpr int kWords = kScores / 4;
template <int kFirst>
struct Scores {
    float first[kFirst];
    float second[kScores - kFirst];
};
template <>
struct Scores<kScores> {
    float first[kScores];
};

template <int kFirst>
__device__ __forceinline__ float& score(Scores<kFirst>& scores, int i) {
    if constexpr (kFirst < kScores) {
        if (i >= kFirst) return scores.second[i - kFirst];
    }
    return scores.first[i];
}

// Calls visit(buffer, its first key).
template <int kFirst, class Visit>
__device__ __forceinline__ void for_each_buffer(Scores<kFirst>& scores, Visit visit) {
    visit(scores.first, 0);
    if constexpr (kFirst < kScores) visit(scores.second, 2 * kFirst);
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
template <int kFirst>
__device__ __forceinline__ float lane_max(Scores<kFirst>& scores, int r) {
    constexpr int kChains = 4;
    float chain[kChains];
#pragma unroll
    for (int i = 0; i < kScores / 4; ++i) {
        const float pair = max_nan(score<kFirst>(scores, 4 * i + 2 * r), score<kFirst>(scores, 4 * i + 2 * r + 1));
        chain[i % kChains] = i < kChains ? pair : max_nan(chain[i % kChains], pair);
    }
    return max_nan(max_nan(chain[0], chain[1]), max_nan(chain[2], chain[3]));
}

// The same as an integer, by instructions with three operands: the bits of the largest score, or 0 if none is positive. NaN of the
// tensor cores and of multiplications is 0x7FFFFFFF, the largest integer.
template <int kFirst>
__device__ __forceinline__ int positive_max_bits(Scores<kFirst>& scores, int r) {
    constexpr int kChains = 4;
    constexpr int kOfRow = kScores / 2;
    const auto max3 = [](int a, int b, int c) { return max(max(a, b), c); };  // one instruction
    const auto bits = [&](int i) { return __float_as_int(score<kFirst>(scores, i / 2 * 4 + 2 * r + i % 2)); };
    int chain[kChains];
#pragma unroll
    for (int i = 0; i < kChains; ++i) chain[i] = max3(bits(3 * i), bits(3 * i + 1), bits(3 * i + 2));
#pragma unroll
    for (int i = 3 * kChains; i < kOfRow; i += 2) {
        int& of = chain[i / 2 % kChains];
        of = max3(of, bits(i), bits(i + 1));
    }
    return max3(max3(chain[0], chain[1], chain[2]), chain[3], 0);
}

// State of a thread's rows: the largest score so far, and this thread's part of the sums. `fused`: the maxima of the warp's rows are
// small enough for one rounding of score * scale + shift.
struct State {
    float row_max[kRowsPerLane] = {minus_infinity(), minus_infinity()};
    float row_sum[kRowsPerLane] = {0.0f, 0.0f};
    bool fused = true;
};
template <class Tuning>
constexpr float kShiftOffset = Tuning::softmax.offset - pack_shift(Tuning::softmax);

// As update_row_max in attention/softmax.cuh without a threshold. A lane whose scores are at most the maximum of its row has nothing
// to do, and most warps have only such lanes. Otherwise earlier sums are multiplied. exp2(score * scale + shift) are the probabilities.
// A row whose maximum is negative, as an integer too, is never below it.
template <class Tuning, int kFirst, class MultiplySums>
__device__ __forceinline__ void raise_row_max(Scores<kFirst>& scores, State& state, float (&shift)[kRowsPerLane], float scale,
                                              MultiplySums multiply_sums) {
    int bits[kRowsPerLane];
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) bits[r] = positive_max_bits<kFirst>(scores, r);
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) shift[r] = fmaf(-state.row_max[r], scale, kShiftOffset<Tuning>);
    const bool below = bits[0] <= __float_as_int(state.row_max[0]) && bits[1] <= __float_as_int(state.row_max[1]);
    if (__all_sync(kFullWarpMask, below && state.fused)) return;

    float block_max[kRowsPerLane] = {__int_as_float(bits[0]), __int_as_float(bits[1])};
    if (!__all_sync(kFullWarpMask, bits[0] > 0 && bits[1] > 0)) {
#pragma unroll
        for (int r = 0; r < kRowsPerLane; ++r) block_max[r] = lane_max<kFirst>(scores, r);
    }

    Rescale rescale;
    float subtracted_max[kRowsPerLane];
    float row_max_scaled[kRowsPerLane];
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        const float row_max = quad_max_nan(max_nan(state.row_max[r], block_max[r]));
        subtracted_max[r] = row_max == minus_infinity() ? 0.0f : row_max;  // no key seen yet, and -inf minus -inf is NaN
        rescale.factor[r] = ptx::exp2_approx((state.row_max[r] - subtracted_max[r]) * scale);
        row_max_scaled[r] = subtracted_max[r] * scale;
        state.row_max[r] = row_max;
        state.row_sum[r] *= rescale.factor[r];
        shift[r] = fmaf(-subtracted_max[r], scale, kShiftOffset<Tuning>);
    }
    state.fused = __all_sync(kFullWarpMask, fmaxf(fabsf(row_max_scaled[0]), fabsf(row_max_scaled[1])) <= kMaxRowMaxScaled);
    if (!state.fused) {
#pragma unroll
        for (int i = 0; i < kScores; ++i) score<kFirst>(scores, i) -= subtracted_max[row_of(i)];
#pragma unroll
        for (int r = 0; r < kRowsPerLane; ++r) shift[r] = kShiftOffset<Tuning>;
    }
    multiply_sums(rescale);
}

constexpr float kSmallestFactor = 1.17549435e-38f;

// The same if each KV block has its own scale: maxima are scaled ones, in powers of two. Whatever they are, exp2(score * scale - max)
// is rounded once. So large ones need no care.
template <int kFirst, class MultiplySums>
__device__ __forceinline__ void raise_scaled_max(Scores<kFirst>& scores, State& state, float (&shift)[kRowsPerLane],
                                                 float scale, MultiplySums multiply_sums) {
    float block_max[kRowsPerLane];
    bool below = true;
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        block_max[r] = lane_max<kFirst>(scores, r);
        block_max[r] *= scale;
        shift[r] = state.row_max[r] == minus_infinity() ? 0.0f : -state.row_max[r];
        below = below && block_max[r] <= state.row_max[r];
    }
    if (__all_sync(kFullWarpMask, below)) return;

    Rescale rescale;
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        const float row_max = quad_max_nan(max_nan(state.row_max[r], block_max[r]));
        shift[r] = row_max == minus_infinity() ? 0.0f : -row_max;  // no key seen yet, and -inf minus -inf is NaN
        rescale.factor[r] = ptx::exp2_approx(state.row_max[r] + shift[r]);
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

// Exact probabilities of a KV block that count in a log-sum-exp only. Nothing waits for their sum, so a part is added later, while
// tensor cores work.
constexpr int kLateScores = kScores / 2;

// A word has four places of one row (attention/value_order.h). The sums are those before rounding, without the late ones.
template <class Tuning, bool kExactSums, int kFirst>
__device__ __forceinline__ void exponentiate(Scores<kFirst>& scores, const float (&shift)[kRowsPerLane], float scale,
                                             float (&block_sum)[kRowsPerLane], float (&late)[kLateScores],
                                             uint32_t (&probabilities)[kWords]) {
    constexpr Softmax kSoftmax = Tuning::softmax;
    constexpr int kOf = 16;
    const float scale_y = scale * (1.0f / kRange);
    const float shift_y[kRowsPerLane] = {(shift[0] + kLowest) * (1.0f / kRange), (shift[1] + kLowest) * (1.0f / kRange)};
#pragma unroll
    for (int i = 0; i < kScores; i += 8) {
#pragma unroll
        for (int r = 0; r < kRowsPerLane; ++r) {
            float p[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float s = score<kFirst>(scores, i + j / 2 * 4 + 2 * r + j % 2);
                const bool polynomial = (i + 4 * r + j) * kSoftmax.polynomials % kOf < kSoftmax.polynomials;
                p[j] = polynomial ? exp2_polynomial(__saturatef(fmaf(s, scale_y, shift_y[r])))
                                  : ptx::exp2_approx(fmaf(s, scale, shift[r]));
            }
            if constexpr (kExactSums && kSoftmax.rounded_sums) {
#pragma unroll
                for (int j = 0; j < 4; j += 2) {
                    const int place = i + 2 * j - (kScores - kLateScores);
                    if (place >= 0) {
                        late[place + 2 * r] = p[j];
                        late[place + 2 * r + 1] = p[j + 1];
                    } else {
                        block_sum[r] = i + j == 0 ? p[j] + p[j + 1] : block_sum[r] + (p[j] + p[j + 1]);
                    }
                }
            } else if constexpr (kExactSums) {
                const float sum = (p[0] + p[1]) + (p[2] + p[3]);
                block_sum[r] = i == 0 ? sum : block_sum[r] + sum;
            }
            probabilities[i / 4 + r] =
                kSoftmax.half_packing ? pack_through_half(p[0], p[1], p[2], p[3]) : ptx::pack_e4m3(p[0], p[1], p[2], p[3]);
        }
    }
}

__device__ __forceinline__ void add_late(const float (&late)[kLateScores], float (&sum)[kRowsPerLane]) {
    float part[kRowsPerLane];
#pragma unroll
    for (int i = 0; i < kLateScores; i += 4) {
#pragma unroll
        for (int r = 0; r < kRowsPerLane; ++r) {
            const float pair = late[i + 2 * r] + late[i + 2 * r + 1];
            part[r] = i == 0 ? pair : part[r] + pair;
        }
    }
    add(sum, part);
}

}  // namespace flashcore::attention::e4m3
