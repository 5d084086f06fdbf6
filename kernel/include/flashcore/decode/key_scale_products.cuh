// How a consumer warp uses the scales of single keys and values (key_scales.cuh): as factors of scores and exponentials.
#pragma once

#include "flashcore/decode/fp8_merge.cuh"
#include "flashcore/decode/key_scales.cuh"

namespace flashcore::decode {

// The scales of a lane's keys of a group: of rows `lane / 4` and `lane / 4 + 8` of each part of 16.
template <int kParts>
struct LaneScales {
    float of[kParts][2];

    __device__ __forceinline__ LaneScales(const float* scales, int first, int lane) {
        const float* const own = scales + (kParts == 2 ? first : key_scale_place(first)) + lane / sm90::kQuadLanes * 4;
        if constexpr (kParts == 2) {
            const auto four = *reinterpret_cast<const float4*>(own);
            of[0][0] = four.x, of[0][1] = four.y, of[1][0] = four.z, of[1][1] = four.w;
        } else {
            const auto two = *reinterpret_cast<const float2*>(own);
            of[0][0] = two.x, of[0][1] = two.y;
        }
    }

    __device__ __forceinline__ float largest() const {
        float result = 0.0f;
#pragma unroll
        for (int i = 0; i < 2 * kParts; ++i) result = fmaxf(result, fabsf(of[i / 2][i % 2]));
        return result;
    }

    __device__ __forceinline__ void multiply(float factor) {
#pragma unroll
        for (int i = 0; i < 2 * kParts; ++i) of[i / 2][i % 2] *= factor;
    }
};

// The power of two that brings the largest scale of a split's values so far to [2^14, 2^15). An exponential is at most 1, so the product
// fits into fp16, and is normal from 2^-29 of that scale on.
class KeyScaleRange {
public:
    __device__ __forceinline__ bool covers(float largest) const { return static_cast<int>(__float_as_uint(largest) >> 23) <= exponent_; }

    // Takes in the largest of more scales. Returns the factor of earlier sums.
    __device__ __forceinline__ float widen(float largest) {
        const int before = exponent_;
        exponent_ = max_int(exponent_, static_cast<int>(__float_as_uint(largest) >> 23));
        return power(kBias + before - exponent_);
    }

    __device__ __forceinline__ float factor() const { return power(2 * kBias + 14 - exponent_); }
    __device__ __forceinline__ float inverse() const { return power(exponent_ - 14); }

private:
    static constexpr int kBias = 127;

    __device__ __forceinline__ static float power(int biased) {
        return __uint_as_float(static_cast<uint32_t>(max_int(biased, 0)) << 23);
    }

    int exponent_ = 15;  // biased, so that the factors stay normal. Of smaller scales, 2^-112 and below, the products lose bits
};

// Multiplies what a lane holds of each key by its factor.
template <int kHalves, int kParts>
__device__ __forceinline__ void multiply(float (&of_keys)[kParts][kHalves][4], const LaneScales<kParts>& scales) {
#pragma unroll
    for (int i = 0; i < kParts * kHalves * 4; ++i) {
        const int part = i / (kHalves * 4), half = i / 4 % kHalves;
        of_keys[part][half][i % 4] *= scales.of[part][i % 4 / 2];
    }
}

template <int kHeadDim, int kHalves>
__device__ __forceinline__ void multiply(Fp8State<kHeadDim, kHalves>& state, float factor) {
#pragma unroll
    for (auto& half : state.output) {
#pragma unroll
        for (auto& unit : half) {
#pragma unroll
            for (float& sum : unit) sum *= factor;
        }
    }
}

// Multiplies exponentials by the scales of the values.
template <int kHeadDim, int kHalves, int kParts>
__device__ __forceinline__ void scale_probabilities(Fp8State<kHeadDim, kHalves>& state, float (&scores)[kParts][kHalves][4],
                                                    LaneScales<kParts> scales, KeyScaleRange& range) {
    const float largest = scales.largest();
    if (!__all_sync(sm90::kFullWarpMask, range.covers(largest))) multiply(state, range.widen(column_max(largest)));
    scales.multiply(range.factor());
    multiply(scores, scales);
}

}  // namespace flashcore::decode
