// wgmma on fp16 with fp32 accumulators in the widths that attention tiles use. Separate from kernel/include, so that a
// measurement does not change when a kernel gains or loses a shape.
#pragma once

#include <cstdint>

namespace microbench {

__device__ __forceinline__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kGroupsInFlight>
__device__ __forceinline__ void wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroupsInFlight) : "memory");
}

// Keeps the compiler from moving register accesses across this point, because it does not see a wgmma in flight.
template <int kCount>
__device__ __forceinline__ void pin(float (&registers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void pin(uint32_t (&registers)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

// D[64 x N] = A[64 x 16] * B[16 x N] (+ D, if kAccumulate)
template <int kN>
struct Wgmma;

// Operand names: ten that share their tens digit.
#define TEN(t) "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9"
#define NAMES_32 TEN() "," TEN(1) "," TEN(2) ",%30,%31"
#define NAMES_40 TEN() "," TEN(1) "," TEN(2) "," TEN(3)
#define NAMES_48 NAMES_40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define NAMES_60 NAMES_40 "," TEN(4) "," TEN(5)
#define NAMES_64 NAMES_60 ",%60,%61,%62,%63"
#define NAMES_80 NAMES_60 "," TEN(6) "," TEN(7)
#define NAMES_88 NAMES_80 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define NAMES_128 NAMES_80 "," TEN(8) "," TEN(9) "," TEN(10) "," TEN(11) ",%120,%121,%122,%123,%124,%125,%126,%127"
// The operands themselves, eight at a time.
#define EIGHT(d, i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define OPERANDS_32(d) EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16), EIGHT(d, 24)
#define OPERANDS_40(d) OPERANDS_32(d), EIGHT(d, 32)
#define OPERANDS_48(d) OPERANDS_40(d), EIGHT(d, 40)
#define OPERANDS_64(d) OPERANDS_48(d), EIGHT(d, 48), EIGHT(d, 56)
#define OPERANDS_88(d) OPERANDS_64(d), EIGHT(d, 64), EIGHT(d, 72), EIGHT(d, 80)
#define OPERANDS_128(d) OPERANDS_88(d), EIGHT(d, 88), EIGHT(d, 96), EIGHT(d, 104), EIGHT(d, 112), EIGHT(d, 120)

// kTranspose: B is contiguous along N (values), not along K (keys).
#define DEFINE_WGMMA(N, R, O0, O1, O2, O3, O4, O5, O6)                                                                \
    template <>                                                                                                       \
    struct Wgmma<N> {                                                                                                 \
        static constexpr int kRegisters = R;                                                                          \
        template <int kAccumulate = 1>                                                                                \
        __device__ __forceinline__ static void shared(float (&d)[R], uint64_t a, uint64_t b) {                        \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #O2 ", 0;\n"                                            \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" NAMES_##R "}, %" #O0 ", %" #O1    \
                         ", p, 1, 1, 0, 0;\n}"                                                                        \
                         : OPERANDS_##R(d)                                                                            \
                         : "l"(a), "l"(b), "n"(kAccumulate));                                                         \
        }                                                                                                             \
        template <int kTranspose, int kAccumulate = 1>                                                                \
        __device__ __forceinline__ static void registers(float (&d)[R], const uint32_t* a, uint64_t b) {              \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #O6 ", 0;\n"                                            \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" NAMES_##R "}, {%" #O0 ",%" #O1    \
                         ",%" #O2 ",%" #O3 "}, %" #O4 ", p, 1, 1, %" #O5 ";\n}"                                       \
                         : OPERANDS_##R(d)                                                                            \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTranspose), "n"(kAccumulate));    \
        }                                                                                                             \
    };

DEFINE_WGMMA(64, 32, 32, 33, 34, 35, 36, 37, 38)
DEFINE_WGMMA(80, 40, 40, 41, 42, 43, 44, 45, 46)
DEFINE_WGMMA(96, 48, 48, 49, 50, 51, 52, 53, 54)
DEFINE_WGMMA(128, 64, 64, 65, 66, 67, 68, 69, 70)
DEFINE_WGMMA(176, 88, 88, 89, 90, 91, 92, 93, 94)
DEFINE_WGMMA(256, 128, 128, 129, 130, 131, 132, 133, 134)

}  // namespace microbench
