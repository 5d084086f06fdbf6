// Scalar work next to the tensor cores: single instructions, and the instruction mix of the softmax.
#pragma once

#include "flashcore/ptx/math.cuh"
#include "harness.cuh"

namespace microbench {

enum class Scalar { kNone, kExp2, kFma, kAdd, kMax, kPack, kSoftmax };

__device__ __forceinline__ float exp2_approx(float x) {
    float result;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

// A thread's two rows: row max, scaled row max, and row sum.
struct Rows {
    float maximum[2] = {-1e30f, -1e30f};
    float offset[2];
    float sum[2] = {0.0f, 0.0f};
    uint32_t bits = 0;  // of probabilities that no mma uses

    __device__ __forceinline__ explicit Rows(float scale) : offset{scale, 2.0f * scale} {}
};

__device__ __forceinline__ void use(const Rows& rows, uint64_t* out) {
    const float sinks[5] = {rows.maximum[0], rows.maximum[1], rows.sum[0], rows.sum[1], __uint_as_float(rows.bits)};
    use(sinks, out);
}

// Maxima of a thread's scores: one instruction per score.
template <int kCount>
__device__ __forceinline__ void maxima(const float (&scores)[kCount], Rows& rows) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) rows.maximum[i / 2 % 2] = fmaxf(rows.maximum[i / 2 % 2], scores[i]);
}

// One multiply-add, one exponential, one addition and half a conversion per score.
template <int kCount>
__device__ __forceinline__ void exponentiate(const float (&scores)[kCount], float scale, Rows& rows,
                                             uint32_t (&probabilities)[kCount / 2]) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
        const int r = i / 2 % 2;
        const float low = exp2_approx(fmaf(scores[i], scale, -rows.offset[r]));
        const float high = exp2_approx(fmaf(scores[i + 1], scale, -rows.offset[r]));
        rows.sum[r] += low;
        rows.sum[r] += high;
        probabilities[i / 2] = ptx::pack<__half>(low, high);
    }
}

// kElements of work per thread in kChains chains. With fewer chains a warp cannot issue in every clock. Every value depends on
// the last one, or the compiler would compute it once. For the softmax that costs an integer addition, and a quarter of an
// exclusive or to use its probabilities.
template <Scalar kScalar, int kElements, int kChains>
__device__ __forceinline__ void scalar_work(float (&values)[kChains], float scale, Rows& rows) {
#pragma unroll
    for (int done = 0; done < kElements; done += kChains) {
        if constexpr (kScalar == Scalar::kSoftmax) {
            maxima(values, rows);
            uint32_t packed[kChains / 2];
            exponentiate(values, scale, rows, packed);
#pragma unroll
            for (int i = 0; i < kChains / 2; i += 2) rows.bits ^= packed[i] ^ packed[i + 1];
        }
#pragma unroll
        for (int i = 0; i < kChains; ++i) {
            float& x = values[i];
            if constexpr (kScalar == Scalar::kSoftmax) x = __uint_as_float(__float_as_uint(x) + done + 1);
            if constexpr (kScalar == Scalar::kExp2) x = exp2_approx(x);
            if constexpr (kScalar == Scalar::kFma) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(scale));
            if constexpr (kScalar == Scalar::kAdd) asm volatile("add.f32 %0, %0, %1;" : "+f"(x) : "f"(scale));
            if constexpr (kScalar == Scalar::kMax) {
                asm volatile("max.f32 %0, %0, %1;" : "+f"(x) : "f"(done % 2 == 0 ? scale : rows.offset[1]));
            }
            if constexpr (kScalar == Scalar::kPack) x = __uint_as_float(ptx::pack<__half>(x, scale));
        }
    }
}

}  // namespace microbench
