// Rounds rows to E4M3 so that they keep their length: there are two candidates for each row.
//
// After a Hadamard transform an outlier channel is one direction of all columns, and the largest keys lie in it. So an error along the
// key itself changes a score most. The columns of the key can compensate it. docs/fp8.md has the errors.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "flashcore/ptx/math.cuh"

namespace flashcore::quantise {

template <int kColumns>
__device__ __forceinline__ void pack_columns(uint32_t (&words)[(kColumns + 3) / 4], const float (&y)[kColumns]) {
    float z[kColumns < 4 ? 4 : kColumns] = {};
#pragma unroll
    for (int j = 0; j < kColumns; ++j) z[j] = y[j];
#pragma unroll
    for (int i = 0; i < (kColumns + 3) / 4; ++i) words[i] = ptx::pack_e4m3(z[4 * i], z[4 * i + 1], z[4 * i + 2], z[4 * i + 3]);
}

// Two E4M3 of the low 16 bits.
__device__ __forceinline__ float2 unpack_e4m3(uint32_t pair) {
    uint32_t halves;
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, low;\n}" : "=r"(halves) : "r"(pair));
    return __half22float2(*reinterpret_cast<const __half2*>(&halves));
}

// The sum of products over a row. Each step rounds on its own, so that a formula can give the same bits.
template <int kColumns>
__device__ __forceinline__ float row_product(const float (&x)[kColumns], const float (&y)[kColumns]) {
    float sum = __fmul_rn(x[0], y[0]);
#pragma unroll
    for (int j = 1; j < kColumns; ++j) sum = __fadd_rn(sum, __fmul_rn(x[j], y[j]));
#pragma unroll
    for (int step = 1; step < 32; step *= 2) sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, step));
    return sum;
}

// What rounding takes away from a row along itself: the sum of y * (y - rounded).
template <int kColumns>
__device__ __forceinline__ float lost_length(const float (&y)[kColumns], const uint32_t (&words)[(kColumns + 3) / 4]) {
    float lost[kColumns];
#pragma unroll
    for (int j = 0; j < kColumns; j += 2) {
        const float2 rounded = unpack_e4m3(words[j / 4] >> j % 4 * 8);
        lost[j] = y[j] - rounded.x;
        lost[j + 1] = y[j + 1] - rounded.y;
    }
    return row_product<kColumns>(y, lost);
}

// `words` holds `y`, rounded. Stretches y by what is lost, rounds again, and takes the candidate that loses less. Rows of zeros, and
// rows with NaN, stay as they are.
template <int kColumns>
__device__ __forceinline__ void keep_length(uint32_t (&words)[(kColumns + 3) / 4], const float (&y)[kColumns]) {
    const float length = row_product<kColumns>(y, y);
    const float lost = lost_length<kColumns>(y, words);
    const float stretch = __fadd_rn(1.0f, __fdiv_rn(lost, length));
    float stretched[kColumns];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) stretched[j] = __fmul_rn(y[j], stretch);
    uint32_t candidate[(kColumns + 3) / 4];
    pack_columns<kColumns>(candidate, stretched);
    if (!(fabsf(lost_length<kColumns>(y, candidate)) < fabsf(lost))) return;
#pragma unroll
    for (int i = 0; i < (kColumns + 3) / 4; ++i) words[i] = candidate[i];
}

}  // namespace flashcore::quantise
