// Accesses to global memory that do not wait for it.
#pragma once

namespace flashcore::ptx {

// Loads the cache line of an address into L2.
__device__ __forceinline__ void prefetch_l2(const void* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

// Adds one and returns the old value. The compiler would merge atomicAdd across lanes and wait for the result at once. An
// increment (modulo 2^31) waits only where the result is used.
__device__ __forceinline__ unsigned atomic_increment(unsigned* address) {
    unsigned before;
    asm volatile("atom.global.inc.u32 %0, [%1], 0x7FFFFFFF;" : "=r"(before) : "l"(address) : "memory");
    return before;
}

}  // namespace flashcore::ptx
