// TMA: bulk tensor copies between global and shared memory, in five dimensions.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "flashcore/ptx/mbarrier.cuh"

namespace flashcore::ptx {

__device__ __forceinline__ void tma_prefetch_map(const CUtensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Completes `barrier` by the bytes of the whole box, also if the box is clipped. Elements outside the tensor arrive as zeros.
__device__ __forceinline__ void tma_load_5d(void* shared, const CUtensorMap* map, uint64_t* barrier, int c0, int c1, int c2,
                                            int c3, int c4) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(
            shared_address(shared)),
        "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
        : "memory");
}

// TMA does not write elements outside the tensor.
__device__ __forceinline__ void tma_store_5d(const CUtensorMap* map, const void* shared, int c0, int c1, int c2, int c3, int c4) {
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
                 "r"(shared_address(shared)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                 : "memory");
}

__device__ __forceinline__ void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until the committed stores of this thread have read their shared memory.
__device__ __forceinline__ void tma_store_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

// Orders this thread's ordinary shared-memory accesses before later accesses by TMA or the tensor cores.
__device__ __forceinline__ void fence_proxy_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Orders this thread's ordinary accesses to any memory before later accesses by TMA.
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

}  // namespace flashcore::ptx
