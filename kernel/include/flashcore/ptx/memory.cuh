// Global memory without waiting for it.
#pragma once

namespace flashcore::ptx {

// The line of an address comes into L2.
__device__ __forceinline__ void prefetch_l2(const void* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

// Adds one and gives what was there before. An addition the compiler would do once for all lanes that want it, and share the
// answer out at once, which waits for it; an increment (modulo 2^31) leaves the waiting to whoever uses the answer.
__device__ __forceinline__ unsigned atomic_increment(unsigned* address) {
    unsigned before;
    asm volatile("atom.global.inc.u32 %0, [%1], 0x7FFFFFFF;" : "=r"(before) : "l"(address) : "memory");
    return before;
}

}  // namespace flashcore::ptx
