// The layout of shared memory.
#pragma once

#include <cstdint>

#include "flashcore/decode/params.h"
#include "flashcore/ptx/tma.cuh"
#include "flashcore/sm90/pipeline.cuh"
#include "flashcore/sm90/smem_descriptor.cuh"

namespace flashcore::decode {

// What a warp needs of a split when it has attended to all its keys.
struct HeldSplit {
    RaggedSplit split;
    FixupInfo fixup;
};
struct NothingHeld {};

// A tile consists of consecutive boxes: [box][head][column of swizzle atoms][key][64 elements] (sm90/smem_descriptor.cuh).
template <class Tuning>
struct alignas(kSharedAlignment) SharedStorage {
    static constexpr Config kConfig = Tuning::config;

    uint8_t k[kConfig.stages][tile_bytes(kConfig)];
    uint8_t v[kConfig.stages][tile_bytes(kConfig)];
    float sums[kConfig.consumer_warps][kMergeRows][kConfig.head_dim + kMergePad];  // of every warp, half of its rows at a time
    float2 statistics[kConfig.consumer_warps][kRowTileRows];                       // max and sum of every warp's rows
    float2 totals[kConfig.consumer_warps][kRowTileRows];  // max and sum of every row tile, over its warps
    SplitOf<Tuning> work_queue[kWorkQueueSlots];          // kNoWorkTile ends the work
    sm90::RingBarriers<kWorkQueueSlots> work_queue_ring;
    sm90::RingBarriers<kConfig.stages> ring;
    EvenPartition cta_ranges;  // ranges of the work list, written before __syncthreads
    unsigned finished_splits;  // splits of the work tile that finished before this one
    [[no_unique_address]] std::conditional_t<kConfig.ragged, HeldSplit[kConfig.consumer_warps], NothingHeld> held;

    __device__ __forceinline__ void init_barriers() {
        work_queue_ring.init(kConfig.consumer_warps);
        ring.init(kConfig.consumer_warps);
        ptx::fence_mbarrier_init();
    }
};

}  // namespace flashcore::decode
