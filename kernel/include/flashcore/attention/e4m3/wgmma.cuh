// The wgmma shapes of attention in E4M3 with shared registers: 128, 72, 64 or 56 columns.
#pragma once

#include <cstdint>

#include "flashcore/ptx/wgmma.cuh"

namespace flashcore::ptx {

#define FLASHCORE_EIGHT(d, i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define FLASHCORE_FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define FLASHCORE_HALF(d) FLASHCORE_EIGHT(d, 0), FLASHCORE_EIGHT(d, 8), FLASHCORE_EIGHT(d, 16), FLASHCORE_EIGHT(d, 24)
#define FLASHCORE_NAMES_HALF                                                                                                  \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"

// 64 columns. Both operands are in shared memory.
__device__ __forceinline__ void wgmma_e4m3(float (&d)[32], uint64_t a, uint64_t b, int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {" FLASHCORE_NAMES_HALF
        "}, %32, %33, p, 1, 1;\n}\n"
        : FLASHCORE_HALF(d)
        : "l"(a), "l"(b), "r"(accumulate));
}

// 64 columns. A is in registers.
__device__ __forceinline__ void wgmma_e4m3(float (&d)[32], const uint32_t* a, uint64_t b, int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\nwgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {" FLASHCORE_NAMES_HALF
        "}, {%32,%33,%34,%35}, %36, p, 1, 1;\n}\n"
        : FLASHCORE_HALF(d)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

// 72 columns. Both operands are in shared memory.
__device__ __forceinline__ void wgmma_e4m3(float (&d)[36], uint64_t a, uint64_t b, int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %38, 0;\nwgmma.mma_async.sync.aligned.m64n72k32.f32.e4m3.e4m3 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27"
        ",%28,%29,%30,%31,%32,%33,%34,%35"
        "}, %36, %37, p, 1, 1;\n}\n"
        : FLASHCORE_EIGHT(d, 0), FLASHCORE_EIGHT(d, 8), FLASHCORE_EIGHT(d, 16), FLASHCORE_EIGHT(d, 24), FLASHCORE_FOUR(d, 32)
        : "l"(a), "l"(b), "r"(accumulate));
}

// 72 columns. A is in registers.
__device__ __forceinline__ void wgmma_e4m3(float (&d)[36], const uint32_t* a, uint64_t b, int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %41, 0;\nwgmma.mma_async.sync.aligned.m64n72k32.f32.e4m3.e4m3 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27"
        ",%28,%29,%30,%31,%32,%33,%34,%35"
        "}, {%36,%37,%38,%39}, %40, p, 1, 1;\n}\n"
        : FLASHCORE_EIGHT(d, 0), FLASHCORE_EIGHT(d, 8), FLASHCORE_EIGHT(d, 16), FLASHCORE_EIGHT(d, 24), FLASHCORE_FOUR(d, 32)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

// 56 columns. Both operands are in shared memory.
__device__ __forceinline__ void wgmma_e4m3(float (&d)[28], uint64_t a, uint64_t b, int accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %30, 0;\nwgmma.mma_async.sync.aligned.m64n56k32.f32.e4m3.e4m3 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27"
        "}, %28, %29, p, 1, 1;\n}\n"
        : FLASHCORE_EIGHT(d, 0), FLASHCORE_EIGHT(d, 8), FLASHCORE_EIGHT(d, 16), FLASHCORE_FOUR(d, 24)
        : "l"(a), "l"(b), "r"(accumulate));
}

// 128 columns, as in ptx/wgmma.cuh.
__device__ __forceinline__ void wgmma_e4m3(float (&d)[64], uint64_t a, uint64_t b, int accumulate) {
    Wgmma<E4m3, 128>::shared(d, a, b, accumulate);
}
__device__ __forceinline__ void wgmma_e4m3(float (&d)[64], const uint32_t* a, uint64_t b, int accumulate) {
    Wgmma<E4m3, 128>::registers<Major::kK>(d, a, b, accumulate);
}

#undef FLASHCORE_NAMES_HALF
#undef FLASHCORE_HALF
#undef FLASHCORE_FOUR
#undef FLASHCORE_EIGHT

}  // namespace flashcore::ptx
