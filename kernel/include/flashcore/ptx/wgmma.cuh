// wgmma with fp32 accumulators: D[64 x N] = A[64 x K] * B[K x N] (+ D). K is 16, or 32 for E4M3. Only the shapes that a kernel uses.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "flashcore/ptx/e4m3.h"

namespace flashcore::ptx {

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int kGroupsInFlight>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroupsInFlight) : "memory");
}

// Keeps accesses to these registers on their side of this point. The compiler does not see the asynchronous reads and writes of a
// wgmma.
template <int kCount>
__device__ __forceinline__ void warpgroup_fence_operand(float (&registers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

template <int kCount>
__device__ __forceinline__ void warpgroup_fence_operand(uint32_t (&registers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

// The register list of the instruction's text: ten operand names that share their tens digit (TEN() is %0 .. %9).
#define FLASHCORE_TEN(t) "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9"
#define FLASHCORE_NAMES_30 FLASHCORE_TEN() "," FLASHCORE_TEN(1) "," FLASHCORE_TEN(2)
#define FLASHCORE_NAMES_60 FLASHCORE_NAMES_30 "," FLASHCORE_TEN(3) "," FLASHCORE_TEN(4) "," FLASHCORE_TEN(5)
#define FLASHCORE_NAMES_90 FLASHCORE_NAMES_60 "," FLASHCORE_TEN(6) "," FLASHCORE_TEN(7) "," FLASHCORE_TEN(8)
#define FLASHCORE_NAMES_32 FLASHCORE_NAMES_30 ",%30,%31"
#define FLASHCORE_NAMES_64 FLASHCORE_NAMES_60 ",%60,%61,%62,%63"
#define FLASHCORE_NAMES_128 \
    FLASHCORE_NAMES_90 "," FLASHCORE_TEN(9) "," FLASHCORE_TEN(10) "," FLASHCORE_TEN(11) ",%120,%121,%122,%123,%124,%125,%126,%127"
// The operands themselves, eight at a time.
#define FLASHCORE_EIGHT(d, i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define FLASHCORE_THIRTY_TWO(d, i) \
    FLASHCORE_EIGHT(d, i), FLASHCORE_EIGHT(d, i + 8), FLASHCORE_EIGHT(d, i + 16), FLASHCORE_EIGHT(d, i + 24)
#define FLASHCORE_OPERANDS_32(d) FLASHCORE_THIRTY_TWO(d, 0)
#define FLASHCORE_OPERANDS_64(d) FLASHCORE_THIRTY_TWO(d, 0), FLASHCORE_THIRTY_TWO(d, 32)
#define FLASHCORE_OPERANDS_128(d) FLASHCORE_OPERANDS_64(d), FLASHCORE_THIRTY_TWO(d, 64), FLASHCORE_THIRTY_TWO(d, 96)

// A and B are in shared memory, both K-major.
#define FLASHCORE_WGMMA_SS(N, REGISTERS, TYPE, DA, DB, ACCUMULATE)                                                         \
    "{\n.reg .pred p;\nsetp.ne.b32 p, %" #ACCUMULATE ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE \
    " {" FLASHCORE_NAMES_##REGISTERS "}, %" #DA ", %" #DB ", p, 1, 1, 0, 0;\n}\n"
// A is in registers, B is in shared memory.
#define FLASHCORE_WGMMA_RS(N, REGISTERS, TYPE, A0, A1, A2, A3, DB, ACCUMULATE, TRANSPOSE)                                  \
    "{\n.reg .pred p;\nsetp.ne.b32 p, %" #ACCUMULATE ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE \
    " {" FLASHCORE_NAMES_##REGISTERS "}, {%" #A0 ",%" #A1 ",%" #A2 ",%" #A3 "}, %" #DB ", p, 1, 1, %" #TRANSPOSE ";\n}\n"

// The dimension along which B is contiguous.
enum class Major { kK = 0, kMn = 1 };

template <class Element, int kN>
struct Wgmma;

#define FLASHCORE_DEFINE_WGMMA(ELEMENT, TYPE, N, REGISTERS, O0, O1, O2, O3, O4, O5, O6)                                \
    template <>                                                                                                        \
    struct Wgmma<ELEMENT, N> {                                                                                         \
        __device__ __forceinline__ static void shared(float (&d)[REGISTERS], uint64_t a, uint64_t b, int accumulate) { \
            asm volatile(FLASHCORE_WGMMA_SS(N, REGISTERS, TYPE, O0, O1, O2)                                            \
                         : FLASHCORE_OPERANDS_##REGISTERS(d)                                                           \
                         : "l"(a), "l"(b), "r"(accumulate));                                                           \
        }                                                                                                              \
        template <Major kMajor>                                                                                        \
        __device__ __forceinline__ static void registers(float (&d)[REGISTERS], const uint32_t* a, uint64_t b,         \
                                                         int accumulate) {                                             \
            asm volatile(FLASHCORE_WGMMA_RS(N, REGISTERS, TYPE, O0, O1, O2, O3, O4, O5, O6)                            \
                         : FLASHCORE_OPERANDS_##REGISTERS(d)                                                           \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate),                        \
                           "n"(static_cast<int>(kMajor)));                                                             \
        }                                                                                                              \
    };

#define FLASHCORE_DEFINE_WGMMAS(ELEMENT, TYPE)                                 \
    FLASHCORE_DEFINE_WGMMA(ELEMENT, TYPE, 64, 32, 32, 33, 34, 35, 36, 37, 38)  \
    FLASHCORE_DEFINE_WGMMA(ELEMENT, TYPE, 128, 64, 64, 65, 66, 67, 68, 69, 70) \
    FLASHCORE_DEFINE_WGMMA(ELEMENT, TYPE, 256, 128, 128, 129, 130, 131, 132, 133, 134)
FLASHCORE_DEFINE_WGMMAS(__half, "f16")
FLASHCORE_DEFINE_WGMMAS(__nv_bfloat16, "bf16")


// E4M3 has K-major operands only. The accumulator keeps about 14 bits (docs/fp8.md).
template <>
struct Wgmma<E4m3, 128> {
    __device__ __forceinline__ static void shared(float (&d)[64], uint64_t a, uint64_t b, int accumulate) {
        asm volatile(
            "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {" FLASHCORE_NAMES_64
            "}, %64, %65, p, 1, 1;\n}\n"
            : FLASHCORE_OPERANDS_64(d)
            : "l"(a), "l"(b), "r"(accumulate));
    }
    template <Major kMajor>
    __device__ __forceinline__ static void registers(float (&d)[64], const uint32_t* a, uint64_t b, int accumulate) {
        static_assert(kMajor == Major::kK, "there is no transposing form");
        asm volatile(
            "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\nwgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {" FLASHCORE_NAMES_64
            "}, {%64,%65,%66,%67}, %68, p, 1, 1;\n}\n"
            : FLASHCORE_OPERANDS_64(d)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
    }
};

#undef FLASHCORE_DEFINE_WGMMAS
#undef FLASHCORE_DEFINE_WGMMA
#undef FLASHCORE_WGMMA_RS
#undef FLASHCORE_WGMMA_SS
#undef FLASHCORE_OPERANDS_128
#undef FLASHCORE_OPERANDS_64
#undef FLASHCORE_OPERANDS_32
#undef FLASHCORE_THIRTY_TWO
#undef FLASHCORE_EIGHT
#undef FLASHCORE_NAMES_128
#undef FLASHCORE_NAMES_64
#undef FLASHCORE_NAMES_32
#undef FLASHCORE_NAMES_90
#undef FLASHCORE_NAMES_60
#undef FLASHCORE_NAMES_30
#undef FLASHCORE_TEN

}  // namespace flashcore::ptx
