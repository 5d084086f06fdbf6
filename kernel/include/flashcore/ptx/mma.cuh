// mma.sync with fp32 accumulators: D[16 x 8] += A[16 x 16] * B[16 x 8] per warp. A is row-major, B is column-major.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace flashcore::ptx {

template <class Element>
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

#define FLASHCORE_DEFINE_MMA(ELEMENT, TYPE)                                                                                 \
    template <>                                                                                                             \
    __device__ __forceinline__ void mma_16x8x16<ELEMENT>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE                                                 \
                     ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                 \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                       \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                       \
    }
FLASHCORE_DEFINE_MMA(__half, "f16")
FLASHCORE_DEFINE_MMA(__nv_bfloat16, "bf16")
#undef FLASHCORE_DEFINE_MMA

// Transposes 8 x 8 elements of 16 bits: a lane holds two neighbours of a row before, and of a column after.
__device__ __forceinline__ uint32_t transpose_matrix(uint32_t pair) {
    uint32_t result;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
    return result;
}

}  // namespace flashcore::ptx
