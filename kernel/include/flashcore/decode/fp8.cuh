// E4M3 caches: conversion to fp16 for mma.sync, scales, and how the operands are permuted.
//
// ldmatrix moves units of 16 bytes, so a lane gets four columns of a key where it gets two in 16 bits. A sum over columns has no
// order. So the columns of a unit are permuted, and the query's with them: the lanes' operands are columns 4q, 4q + 1 and
// 4q + 2, 4q + 3 of 16, for lane q of a quad. A transposed unit holds pairs of columns, so one mma takes the even columns of the
// values and one the odd. A lane then holds four neighbouring columns of the output.
#pragma once

#include <cstdint>

#include "flashcore/decode/params.h"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::decode {

constexpr int kFp8UnitColumns = sm90::kUnitBytes;  // one byte per column
constexpr float kFp8Max = 448.0f;

// The type of the queries. Kernels of single keys' scales take any.
template <class Tuning>
__device__ __forceinline__ DType query_type(const ParamsOf<Tuning>& params) {
    if constexpr (Tuning::config.key_scales) {
        return params.q_dtype;
    } else {
        return Tuning::config.dtype;
    }
}

// Two E4M3 in the low 16 bits become two fp16, exactly. NaN stays NaN.
__device__ __forceinline__ uint32_t fp8_pair_to_fp16(uint32_t pair) {
    uint32_t result;
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, low;\n}" : "=r"(result) : "r"(pair));
    return result;
}
__device__ __forceinline__ uint32_t fp8_high_pair_to_fp16(uint32_t pairs) {
    uint32_t result;
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, high;\n}" : "=r"(result) : "r"(pairs));
    return result;
}

// Rounds to the nearest E4M3, ties to even. Too large values become +-448. NaN stays NaN, with its sign.
__device__ __forceinline__ uint32_t to_fp8(float value) {
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
    const uint32_t sign = __float_as_uint(value) >> 24 & 0x80u;
    return (pair & 0x7Fu) | sign;
}

// The scale of a (batch, KV head).
__device__ __forceinline__ const float* scale_address(const Scale& scale, int sequence, int head) {
    return scale.data + sequence * scale.batch_stride + head * scale.head_stride;
}
__device__ __forceinline__ float scale_of(const Scale& scale, int sequence, int head) {
    return scale.data == nullptr ? 1.0f : __ldg(scale_address(scale, sequence, head));
}

// The factor of a row's scores before the softmax, and their sign (core/score_scale.h).
struct ScoreFactor {
    float log2;
    float sign;
};

__device__ __forceinline__ ScoreFactor score_factor(const Params& params, float descale) {
    constexpr float kSmallestNormal = 1.17549435e-38f;
    const float magnitude = params.scale_log2 * fabsf(descale);
    if (magnitude < kSmallestNormal) return {1.0f, 0.0f};
    return {magnitude, params.score_sign * copysignf(1.0f, descale)};
}

// A power of two that brings the largest magnitude of a row to [2^14, 2^15), inside the range of fp16. 1 for zero, infinity and
// NaN.
__device__ __forceinline__ float fp16_range_factor(float largest) {
    constexpr int kLargestExponent = 127 + 14;
    constexpr int kInfinity = 255;
    const int exponent = static_cast<int>(__float_as_uint(largest) >> 23 & 0xFFu);
    if (exponent == 0 || exponent == kInfinity) return 1.0f;
    const int factor_exponent = kLargestExponent - exponent + 127;
    return __uint_as_float(static_cast<uint32_t>(factor_exponent > 254 ? 254 : factor_exponent) << 23);
}

// Byte offset of the 16-byte unit that a lane addresses for ldmatrix.x4 in rows of 64 or 128 bytes, from the first of 16 rows.
// The swizzle of 64 bytes repeats after eight rows too, and moves a unit by half the row number.
template <int kRowBytes>
struct Fp8LdmatrixOffset {
    static_assert(kRowBytes == 64 || kRowBytes == 128, "the width of a swizzle");
    uint32_t row;
    uint32_t unit;

    __device__ __forceinline__ explicit Fp8LdmatrixOffset(int lane)
        : row(lane % sm90::kMmaM * kRowBytes),
          unit((lane / sm90::kMmaM ^ (kRowBytes == 128 ? lane % 8 : lane % 8 / 2)) * sm90::kUnitBytes) {}

    // `step` selects 32 columns of the row.
    __device__ __forceinline__ uint32_t operator()(int step) const { return row + (unit ^ step * (2 * sm90::kUnitBytes)); }
};

}  // namespace flashcore::decode
