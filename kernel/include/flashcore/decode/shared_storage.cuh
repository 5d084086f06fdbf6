// The layout of shared memory.
#pragma once

#include <cstdint>

#include "flashcore/decode/params.h"
#include "flashcore/ptx/tma.cuh"
#include "flashcore/sm90/pipeline.cuh"
#include "flashcore/sm90/smem_descriptor.cuh"

namespace flashcore::decode {

// The window of a split, the same for all of its rows.
struct SplitWindow {
    int skipped;       // the sequence's keys before the first tile, known only with a chunk
    int first_of_all;  // the first key that any row of the sequence sees, counted from that tile
};
struct HeldWindow {
    SplitWindow split;
    int position[kRowTileRows];  // of the rows, counted like keys from the first tile
};
struct NoWindow {};

// What a warp needs of a split when it has attended to all its keys, and of the window meanwhile.
struct HeldSplit {
    RaggedSplit split;
    FixupInfo fixup;
};
template <class Tuning>
struct HeldLocalSplit {
    SplitOf<Tuning> split;
    FixupInfo fixup;
    HeldWindow window;
};
template <class Tuning>
struct HeldFp8Split {
    sm90::RingPosition<kWorkQueueSlots> work_queue;
    Split split;
    FixupInfo fixup;
    float v_scale[held_scales(Tuning::config)];  // of the heads of the work tile
};
template <class Tuning>
using HeldWideSplitOf = std::conditional_t<holds_window(Tuning::config), HeldLocalSplit<Tuning>, HeldSplit>;
template <class Tuning>
using HeldSplitOf = std::conditional_t<Tuning::config.fp8_cache, HeldFp8Split<Tuning>, HeldWideSplitOf<Tuning>>;
struct NothingHeld {};

// A tile consists of consecutive boxes: [box][head][column of swizzle atoms][key][64 elements] (sm90/smem_descriptor.cuh).
template <class Tuning, class = void>
struct alignas(kSharedAlignment) SharedStorage {
    static constexpr Config kConfig = Tuning::config;
    static constexpr int kWarpThreads = 32;

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
    [[no_unique_address]] std::conditional_t<holds_split(kConfig), HeldSplitOf<Tuning>[kConfig.consumer_warps], NothingHeld> held;

    // Each lane that copies arrives when its copies have landed. TMA counts bytes, so one arrival expects them.
    __device__ __forceinline__ void init_barriers() {
        work_queue_ring.init(kConfig.consumer_warps);
        const int lanes = kConfig.gathered ? kConfig.producer_warps * kWarpThreads : kConfig.key_scales ? 1 + kWarpThreads : 1;
        ring.init(kConfig.consumer_warps, lanes);
        ptx::fence_mbarrier_init();
    }
};

// A deterministic launch also folds rows, behind all this. As in the workspace, the statistics of all rows come first and then their
// sums. An address and no member of a larger struct: nvcc 13.0 places what follows a struct that ends with an empty
// [[no_unique_address]] member at a wrong offset, here twice as far.
template <class Tuning>
__device__ __forceinline__ float2* folded_in(SharedStorage<Tuning>& shared) {
    return reinterpret_cast<float2*>(reinterpret_cast<uint8_t*>(&shared) + sizeof(SharedStorage<Tuning>));
}

// The same for a warpgroup, which merges nothing. A tile consists of columns of swizzle atoms: [column][key][64 elements].
template <class Tuning>
struct alignas(kSharedAlignment) SharedStorage<Tuning, std::enable_if_t<Tuning::config.warpgroup>> {
    static constexpr Config kConfig = Tuning::config;

    uint8_t k[kConfig.stages][tile_bytes(kConfig)];
    uint8_t v[kConfig.stages][tile_bytes(kConfig)];
    SplitOf<Tuning> work_queue[kWorkQueueSlots];
    sm90::RingBarriers<kWorkQueueSlots> work_queue_ring;
    sm90::RingBarriers<kConfig.stages> ring;
    EvenPartition cta_ranges;
    unsigned finished_splits;

    __device__ __forceinline__ void init_barriers() {
        constexpr int kWarps = kConfig.consumer_warps;
        ring.init(kWarps);
        work_queue_ring.init(kWarps);
        ptx::fence_mbarrier_init();
    }
};

}  // namespace flashcore::decode
