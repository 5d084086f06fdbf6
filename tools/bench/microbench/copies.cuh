// Bulk copies into shared memory: plain, through a tensor map, and to every CTA of a cluster. Also barriers across a cluster.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "flashcore/ptx/mbarrier.cuh"

namespace microbench {

namespace ptx = flashcore::ptx;

__device__ __forceinline__ void copy_bulk(void* shared, const void* global, uint32_t bytes, uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     ptx::shared_address(shared)),
                 "l"(global), "r"(bytes), "r"(ptx::shared_address(barrier))
                 : "memory");
}

// Copies the box to the same offset in every CTA of `mask`, and completes the barrier at the same offset there.
__device__ __forceinline__ void copy_tensor_multicast(void* shared, const CUtensorMap* map, uint64_t* barrier, int column, int row,
                                                      uint16_t mask) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], "
        "[%2], %5;" ::"r"(ptx::shared_address(shared)),
        "l"(map), "r"(ptx::shared_address(barrier)), "r"(column), "r"(row), "h"(mask)
        : "memory");
}

__device__ __forceinline__ void copy_tensor(void* shared, const CUtensorMap* map, uint64_t* barrier, int column, int row) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
                     ptx::shared_address(shared)),
                 "l"(map), "r"(ptx::shared_address(barrier)), "r"(column), "r"(row)
                 : "memory");
}

__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Arrives at the barrier at the same offset in CTA `rank` of the cluster.
__device__ __forceinline__ void arrive_in(uint64_t* barrier, uint32_t rank) {
    asm volatile(
        "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(ptx::shared_address(barrier)),
        "r"(rank)
        : "memory");
}

}  // namespace microbench
