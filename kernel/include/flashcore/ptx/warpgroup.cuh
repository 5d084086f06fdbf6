// Register reallocation (setmaxnreg) and named barriers between warpgroups.
#pragma once

#include <cstdint>

namespace flashcore::ptx {

template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

__device__ __forceinline__ void named_barrier_sync(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void named_barrier_arrive(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Waits for all `threads` and returns whether `predicate` holds for each of them.
__device__ __forceinline__ bool named_barrier_and(int barrier, int threads, bool predicate) {
    uint32_t result;
    asm volatile(
        "{\n"
        ".reg .pred input, result;\n"
        "setp.ne.u32 input, %1, 0;\n"
        "bar.red.and.pred result, %2, %3, input;\n"
        "selp.u32 %0, 1, 0, result;\n"
        "}\n"
        : "=r"(result)
        : "r"(static_cast<uint32_t>(predicate)), "r"(barrier), "r"(threads)
        : "memory");
    return result != 0;
}

}  // namespace flashcore::ptx
