// Attention over a KV cache for Hopper. One producer warp, or a few, keep tiles from memory in flight. Each consumer warp attends to its
// part of them with mma.sync. kernel/README.md has the schedule and the ledger of every barrier.
#pragma once

#include "flashcore/core/launch.cuh"
#include "flashcore/decode/consumer.cuh"
#include "flashcore/decode/fp8_consumer.cuh"
#include "flashcore/decode/gather_producer.cuh"
#include "flashcore/decode/key_scale_producer.cuh"
#include "flashcore/decode/producer.cuh"
#include "flashcore/decode/segment_consumer.cuh"
#include "flashcore/decode/warpgroup_consumer.cuh"

namespace flashcore::decode {

template <class Tuning>
using UnpackedConsumerOf = std::conditional_t<Tuning::config.fp8_cache, Fp8Consumer<Tuning>, Consumer<Tuning>>;
template <class Tuning>
using FewRowsConsumerOf = std::conditional_t<Tuning::config.deterministic, SegmentConsumer<Tuning>, UnpackedConsumerOf<Tuning>>;
template <class Tuning>
using ConsumerOf = std::conditional_t<Tuning::config.warpgroup, WarpgroupConsumer<Tuning>, FewRowsConsumerOf<Tuning>>;

template <class Tuning>
struct Assumptions {
    static constexpr Config kConfig = Tuning::config;
    using Traits = sm90::ElementTraits<ElementOf<kConfig.dtype>>;
    static_assert(key_bytes(kConfig) % sm90::kSwizzleBytes == 0 || (kConfig.fp8_cache && kConfig.head_dim == 64),
                  "a tile consists of whole swizzle atoms, 128 bytes wide, or 64 bytes for 64 columns of E4M3");
    static_assert(kConfig.tile_keys % kMmaKeys == 0 && (kConfig.tile_keys & (kConfig.tile_keys - 1)) == 0,
                  "boxes divide a tile, so its keys are a power of two");
    static_assert(kConfig.tile_keys <= 256, "a TMA box has at most 256 rows");
    static_assert((kConfig.consumer_warps & (kConfig.consumer_warps - 1)) == 0, "warps divide the keys by a mask");
    static_assert(kConfig.consumer_warps <= 8, "a warp merges one row of each row tile");
    static_assert(kMmaKeys == Traits::kMmaK && kRowTileRows == sm90::kMmaM && kBytesPerElement == Traits::kBytes,
                  "keys and rows must be those of one mma");
    static_assert(!kConfig.warpgroup || (kConfig.ragged && kConfig.head_dim <= 128 &&
                                         kConfig.consumer_warps * kRowTileRows == kWarpgroupRows),
                  "a warpgroup takes 64 packed rows, each warp 16 of them");
    static_assert(!kConfig.deterministic || !(kConfig.ragged || kConfig.fp8_cache || kConfig.local), "not yet");
    static_assert(!(kConfig.ragged && kConfig.fp8_cache), "packed queries need a cache of 16 bits");
    static_assert(kConfig.gathered || kConfig.producer_warps == 1, "one warp issues all TMA copies");
    static_assert(kConfig.ctas_per_multiprocessor >= 1, "config.h must give a default");
    static_assert(sizeof(SplitOf<Tuning>) == split_words(kConfig) * sizeof(int), "config.h must count all words of a split");
    static_assert(sizeof(SharedStorage<Tuning>) + whole_kib(folded_bytes(kConfig)) == shared_bytes(kConfig),
                  "config.h must count all bytes of SharedStorage, and the folded rows behind it");
    static_assert(shared_bytes(kConfig) <= 227 * 1024, "a CTA has at most 227 KiB of shared memory");
};

template <class Tuning>
__device__ __forceinline__ auto make_producer(const ParamsOf<Tuning>& params, SharedStorage<Tuning>& shared, int warp, int lane) {
    if constexpr (Tuning::config.gathered) {
        return GatherProducer<Tuning>(params, shared, warp - Tuning::config.consumer_warps, lane);
    } else {
        return Producer<Tuning>(params, shared, lane);
    }
}

template <class Tuning>
__device__ __forceinline__ void decode(const ParamsOf<Tuning>& params) {
    constexpr Config kConfig = Assumptions<Tuning>::kConfig;
    extern __shared__ __align__(kSharedAlignment) uint8_t memory[];
    auto& shared = *reinterpret_cast<SharedStorage<Tuning>*>(memory);
    const int warp = sm90::uniform(static_cast<int>(threadIdx.x) / sm90::kWarpThreads);
    const int lane = static_cast<int>(threadIdx.x) % sm90::kWarpThreads;

    if (threadIdx.x == 0) {
        if (ptx::shared_address(memory) % kSharedAlignment != 0) __trap();  // the swizzle depends on absolute addresses
        if constexpr (!kConfig.gathered) {
            ptx::tma_prefetch_map(&params.k);
            ptx::tma_prefetch_map(&params.v);
        }
        shared.init_barriers();
    }
    constexpr bool kSeveralProduce = kConfig.gathered || kConfig.key_scales;
    const bool produces = kSeveralProduce ? warp >= kConfig.consumer_warps : warp == kConfig.consumer_warps;
    const bool copies_key_scales = kConfig.key_scales && warp > kConfig.consumer_warps;
    auto producer = make_producer<Tuning>(params, shared, warp, lane);
    if (produces) {
        if constexpr (kConfig.key_scales) {
            producer.find_cta_range(!copies_key_scales);
        } else {
            producer.find_cta_range();
        }
    }
    __syncthreads();
    if (produces) {
        if constexpr (kConfig.key_scales) {
            if (copies_key_scales) return KeyScaleProducer<Tuning>(producer, warp - kConfig.consumer_warps - 1).run();
        }
        producer.run();
    } else {
        ConsumerOf<Tuning>(params, shared, warp, lane).run();
    }
}

}  // namespace flashcore::decode
