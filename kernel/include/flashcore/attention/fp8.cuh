// What differs for E4M3 from 16 bits: factors, the log-sum-exp, and the order of the output's columns.
#pragma once

#include "flashcore/attention/epilogue.cuh"
#include "flashcore/attention/params.h"
#include "flashcore/attention/softmax.cuh"
#include "flashcore/attention/value_order.h"

namespace flashcore::attention {

__device__ __forceinline__ float descale(const Descale& factors, int batch, int kv_head) {
    return factors.data == nullptr ? 1.0f : __ldg(factors.data + batch * factors.batch_stride + kv_head * factors.head_stride);
}

// The factor of a tile's scores in powers of two, and their sign. As core/score_scale.h.
struct ScoreFactor {
    float log2;
    float sign;
};
__device__ __forceinline__ ScoreFactor score_factor(const Params& params, float factor) {
    constexpr float kSmallestNormal = 1.17549435e-38f;
    const float magnitude = params.scale_log2 * fabsf(factor);
    if (magnitude < kSmallestNormal) return {1.0f, 0.0f};
    return {magnitude, params.score_sign * copysignf(1.0f, factor)};
}

// What a row maximum is multiplied by, and what rounding took away from that.
struct MaximumFactor {
    float high;
    float low;
};
// Of scales of heads: the scale of the softmax times those of queries and keys.
__device__ __forceinline__ MaximumFactor maximum_factor(float scale, float q_descale, float k_descale) {
    const float q = fabsf(q_descale);
    const float k = fabsf(k_descale);
    const float product = __fmul_rn(q, k);
    const float high = __fmul_rn(scale, product);
    return {high, fmaf(scale, fmaf(q, k, -product), fmaf(scale, product, -high))};
}

// Returns row_max * factor + ln(row_sum), rounded once at its size. With natural_log there are two such roundings: of the logarithm,
// and of the sum. Here each term is a pair of floats, and the second one has what the first one lacks.
__device__ __forceinline__ float log_sum_exp(float row_max, const MaximumFactor& factor, float row_sum) {
    constexpr int kThreeQuarters = 0x3F400000;
    constexpr int kMantissaBits = 23;
    constexpr int kInfinity = 0x7F800000;
    constexpr float kLn2High = 0.693145751953125f;  // 15 bits, so a product with an exponent is exact
    constexpr float kLn2Low = 1.42860677e-6f;
    const int bits = __float_as_int(row_sum);
    const int exponent = (bits - kThreeQuarters) >> kMantissaBits;
    const float mantissa = __int_as_float(bits - (exponent << kMantissaBits));  // from 0.75 to below 1.5
    const float high = __fmul_rn(static_cast<float>(exponent), kLn2High);
    const float low = fmaf(static_cast<float>(exponent), kLn2Low, __logf(mantissa));
    const float maximum = __fmul_rn(row_max, factor.high);
    const float maximum_low = fmaf(row_max, factor.low, fmaf(row_max, factor.high, -maximum));
    const float sum = maximum + high;
    const float high_part = sum - maximum;
    const float sum_low = (maximum - (sum - high_part)) + (high - high_part);
    const float result = sum + (sum_low + maximum_low + low);
    if (!(row_sum < __int_as_float(kInfinity))) return row_sum;
    return fabsf(sum) < __int_as_float(kInfinity) ? result : sum;
}

// As store_lse in epilogue.cuh, with the factor of a (batch, KV head). The sums are without the offset.
__device__ __forceinline__ void store_fp8_lse(const Params& params, const RowCoordinate& coordinate, const SoftmaxState& state,
                                              const MaximumFactor& factor, int lane) {
    if (params.lse == nullptr || lane % kQuadLanes != 0) return;
    float* lse = params.lse + coordinate.batch * params.lse_batch_stride + coordinate.head * params.lse_head_stride;
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        const int row = coordinate.row + r * sm90::kCoreMatrixRows;
        const float value = log_sum_exp(state.row_max[r], factor, state.row_sum[r]);
        if (row < params.sq) lse[row] = state.row_sum[r] == 0.0f ? minus_infinity() : value;
    }
}

// Writes a thread's two rows in bf16, 64 contiguous bytes per quad. It skips rows past the end.
template <int kCount>
__device__ __forceinline__ void store_permuted_rows(const Params& params, const RowCoordinate& coordinate,
                                                    const float (&output)[kCount], const Rescale& inverse, int lane) {
    asm volatile("" : "+r"(lane));  // compute addresses here, do not keep them in registers during the main loop
    const Output& out = params.out;
    auto* const data =
        static_cast<__nv_bfloat16*>(out.data) + coordinate.batch * out.batch_stride + coordinate.head * out.head_stride;
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        const int row = coordinate.row + r * sm90::kCoreMatrixRows;
        __nv_bfloat16* const columns = data + row * out.sequence_stride + lane % kQuadLanes * 8;
#pragma unroll
        for (int first = 0; first < 2 * kCount; first += 32) {
            uint32_t words[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float* pair = output + first / 2 + 4 * i + 2 * r;
                words[i] = ptx::pack<__nv_bfloat16>(pair[0] * inverse.factor[r], pair[1] * inverse.factor[r]);
            }
            if (row < params.sq) *reinterpret_cast<uint4*>(columns + first) = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
}

}  // namespace flashcore::attention
