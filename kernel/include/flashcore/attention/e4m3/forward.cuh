// Attention forward in E4M3 for head dimensions of 64, 128 and 256: one producer thread and two or three consumer warpgroups.
#pragma once

#include "flashcore/attention/e4m3/consumer.cuh"
#include "flashcore/attention/e4m3/producer.cuh"
#include "flashcore/core/launch.cuh"

namespace flashcore::attention::e4m3 {

template <class Tuning>
struct Assumptions {
    static constexpr Config kConfig = Tuning::config;
    static_assert(kConfig.dtype == DType::kE4m3 && kConfig.tile_n == kTileN, "a KV block is one row of a swizzle atom");
    static_assert(kConfig.tile_m == kConfig.consumer_warpgroups * kWarpgroupRows, "a consumer warpgroup owns 64 query rows");
    static_assert(kConfig.head_dim % Tuning::products.columns == 0 && kConfig.head_dim <= 256, "PV takes whole products");
    static_assert(Tuning::products.columns == 64 || Tuning::products.columns == 128, "one buffer or two");
    static_assert(!Tuning::softmax.rounded_sums || kConfig.head_dim == 64, "one product of 72 columns has all values and ones");
    static_assert(kConfig.tile_m - kWarpgroupRows <= kConfig.tile_n, "a warpgroup skips at most one KV block");
    static_assert(Tuning::softmax.offset <= kLargestOffset, "the largest probability is 2^offset, and 448 is the largest E4M3");
    static_assert(Tuning::softmax.offset >= pack_shift(Tuning::softmax), "the unit of the sums is a power of two below 1");
    static_assert(Tuning::softmax.polynomials <= 8, "NaN must reach an exponential of each row");
    static_assert(!Tuning::softmax.block_scales || (Tuning::softmax.offset == pack_shift(Tuning::softmax) &&
                                                    Tuning::softmax.polynomials == 0 && !Tuning::softmax.rounded_sums),
                  "row maxima are in powers of two, and nothing is added to them, so they may be large");
    static_assert(kTileN == kFactorKeys && kWarpgroupRows == kFactorRows, "a factor belongs to a KV block or a warpgroup");
    static_assert(kConfig.kv_stages >= 2, "QK of one KV block comes before PV of the one before");
    static_assert(shared_bytes(kConfig, Tuning::softmax) <= 227 * 1024, "a CTA has at most 227 KiB of shared memory");
    static_assert(sizeof(Storage<Tuning>) == shared_bytes(kConfig, Tuning::softmax), "config.h must count all bytes of Storage");
    static_assert(loading_registers(kConfig, Tuning::softmax) +
                          kConfig.consumer_warpgroups * computing_registers(kConfig, Tuning::softmax) <=
                      (1 + kConfig.consumer_warpgroups) * registers_at_launch(kConfig),
                  "setmaxnreg only moves registers that the launch allocated. Asking for more waits forever");
};

template <class Tuning>
__device__ __forceinline__ void forward(const ParamsFor<Tuning>& params) {
    constexpr Config kConfig = Assumptions<Tuning>::kConfig;
    extern __shared__ __align__(sm90::kSwizzleAtomBytes) uint8_t memory[];
    auto& shared = *reinterpret_cast<Storage<Tuning>*>(memory);
    const int warpgroup = sm90::uniform(static_cast<int>(threadIdx.x) / kWarpgroupThreads);

    if (threadIdx.x == 0) {
        if (ptx::shared_address(memory) % sm90::kSwizzleAtomBytes != 0) __trap();  // the swizzle depends on absolute addresses
        ptx::tma_prefetch_map(&params.q);
        ptx::tma_prefetch_map(&params.k);
        ptx::tma_prefetch_map(&params.v);
        shared.init_barriers();
    }
    if constexpr (Tuning::softmax.rounded_sums) {
        constexpr uint32_t kFourOnes = 0x38383838;
        for (int i = threadIdx.x; i < kOnesBytes / 4; i += threads(kConfig)) {
            for (auto& slot : shared.v) reinterpret_cast<uint32_t*>(slot + value_bytes(kConfig))[i] = kFourOnes;
        }
        ptx::fence_proxy_async_shared();
    }
    __syncthreads();

    if (warpgroup == 0) {
        ptx::setmaxnreg_dec<loading_registers(kConfig, Tuning::softmax)>();
        if (threadIdx.x == 0) Producer<Tuning>(params, shared).run();
    } else {
        ptx::setmaxnreg_inc<computing_registers(kConfig, Tuning::softmax)>();
        Consumer<Tuning>(params, shared, warpgroup - 1).run();
    }
}

}  // namespace flashcore::attention::e4m3
