// cp.async: copies from global to shared memory by the threads of a warp, 16 or 4 bytes each. Nothing waits, and no register holds the data.
#pragma once

#include <cstdint>

#include "flashcore/ptx/mbarrier.cuh"

namespace flashcore::ptx {

// Both addresses are multiples of 16. L1 is bypassed, so rows that this grid has written and fenced are read from L2. A miss loads 128
// bytes into L2.
__device__ __forceinline__ void cp_async_16(uint32_t shared, const void* global) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}

// Both addresses are multiples of 4. Unless it exists, the source is not read, and the copy is 0.
__device__ __forceinline__ void cp_async_4(uint32_t shared, const void* global, bool exists) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(exists ? 4 : 0) : "memory");
}

// Arrives at the barrier when all earlier copies of this thread have landed, or now if none is left. The barrier must count this
// arrival: one of each lane of the warp.
__device__ __forceinline__ void cp_async_arrive_noinc(uint64_t* barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Waits for all copies of this thread.
__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace flashcore::ptx
