// Attention forward for Hopper. One producer thread feeds the tensor cores of two or three consumer warpgroups. kernel/README.md
// has the schedule and the ledger of every barrier.
#pragma once

#include "flashcore/attention/consumer.cuh"
#include "flashcore/attention/paged_producer.cuh"
#include "flashcore/attention/producer.cuh"
#include "flashcore/core/launch.cuh"

namespace flashcore::attention {

template <class Tuning>
struct Assumptions {
    static constexpr Config kConfig = Tuning::config;
    using Traits = sm90::ElementTraits<OperandOf<kConfig.dtype>>;
    static_assert(kConfig.tile_m == kConfig.consumer_warpgroups * kWarpgroupRows, "a consumer warpgroup owns 64 query rows");
    static_assert(kConfig.head_dim % Traits::kSwizzleAtomColumns == 0,
                  "a tile consists of whole swizzle atoms, 128 bytes wide");
    static_assert(kConfig.tile_n % Traits::kMmaK == 0, "PV takes whole mmas of keys");
    static_assert(kConfig.tile_n <= 256 && kConfig.tile_m <= 256, "a TMA box has at most 256 rows");
    static_assert(kConfig.consumer_warpgroups == 2 || kConfig.consumer_warpgroups == 3, "setmaxnreg is tuned for 2 or 3");
    static_assert(producer_registers(kConfig) + kConfig.consumer_warpgroups * consumer_registers(kConfig) <=
                      (1 + kConfig.consumer_warpgroups) * registers_at_launch(kConfig),
                  "setmaxnreg only moves registers that the launch allocated. Asking for more waits forever");
    static_assert(kConfig.tile_m - kWarpgroupRows <= kConfig.tile_n,
                  "a warpgroup skips at most one KV block. More would need more slots");
    static_assert(!kConfig.tma_store_epilogue ||
                      (kConfig.ping_pong_barrier && !kConfig.query_in_registers && kConfig.q_stages >= 2),
                  "the TMA store reuses the query slot after a ping-pong barrier, while the next query is in use");
    static_assert(!kConfig.recompute_qk ||
                      (kConfig.stale_max_speculation && kConfig.query_in_registers && !kConfig.ping_pong_barrier),
                  "only speculation repeats QK. It needs the query in registers and no ping-pong barrier");
    static_assert(kConfig.kv_stages >= 2, "QK of one KV block overlaps with PV of another");
    static_assert(shared_bytes(kConfig) <= 227 * 1024, "a CTA has at most 227 KiB of shared memory");
    static_assert(sizeof(SharedStorage<Tuning>) == shared_bytes(kConfig), "config.h must count all bytes of SharedStorage");
    static_assert(bytes_of(kConfig.dtype) == Traits::kBytes, "config.h and the descriptors must agree on the element size");
};

template <class Tuning, class KernelParams>
__device__ __forceinline__ void forward(const KernelParams& params) {
    constexpr Config kConfig = Assumptions<Tuning>::kConfig;
    extern __shared__ __align__(sm90::kSwizzleAtomBytes) uint8_t memory[];
    auto& shared = *reinterpret_cast<SharedStorage<Tuning>*>(memory);
    const int warpgroup = sm90::uniform(static_cast<int>(threadIdx.x) / kWarpgroupThreads);

    if (threadIdx.x == 0) {
        if (ptx::shared_address(memory) % sm90::kSwizzleAtomBytes != 0) __trap();  // the swizzle depends on absolute addresses
        ptx::tma_prefetch_map(&params.q);
        ptx::tma_prefetch_map(&params.k);
        ptx::tma_prefetch_map(&params.v);
        shared.init_barriers();
    }
    __syncthreads();

    if (warpgroup == 0) {
        ptx::setmaxnreg_dec<producer_registers(kConfig)>();
        if constexpr (kConfig.paged_kv) {
            const auto operand = static_cast<Operand>(threadIdx.x / kWarpThreads);
            if (operand == Operand::kKeys) PagedProducer<Tuning, Operand::kKeys>(params, shared).run();
            if (operand == Operand::kValues) PagedProducer<Tuning, Operand::kValues>(params, shared).run();
            if (operand == Operand::kQueries) PagedProducer<Tuning, Operand::kQueries>(params, shared).run();
        } else {
            if (threadIdx.x == 0) Producer<Tuning>(params, shared).run();
        }
    } else {
        ptx::setmaxnreg_inc<consumer_registers(kConfig)>();
        Consumer<Tuning>(params, shared, warpgroup - 1).run();
    }
}

}  // namespace flashcore::attention
