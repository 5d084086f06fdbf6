// The layout of shared memory.
#pragma once

#include <cstdint>

#include "flashcore/attention/config.h"
#include "flashcore/attention/shared_tile.h"
#include "flashcore/attention/tile_scheduler.h"
#include "flashcore/ptx/mbarrier.cuh"
#include "flashcore/sm90/pipeline.cuh"
#include "flashcore/sm90/smem_descriptor.cuh"

namespace flashcore::attention {

constexpr int kProducerTiles = 2;        // of pages: the warp of keys sends them to the warps of values and queries
constexpr int kProducerTileReaders = 2;  // these two

// Every tile is head_dim / 64 columns of swizzle atoms: [column][row][64 elements] (sm90/smem_descriptor.cuh).
template <class Tuning>
struct alignas(sm90::kSwizzleAtomBytes) SharedStorage {
    static constexpr Config kConfig = Tuning::config;

    uint8_t q[kConfig.consumer_warpgroups][kConfig.q_stages][query_part_bytes(kConfig)];
    uint8_t k[kConfig.kv_stages][key_tile_bytes(kConfig)];
    uint8_t v[kConfig.kv_stages][key_tile_bytes(kConfig)];
    Tile tile[kConfig.consumer_warpgroups][kConfig.q_stages];  // arrives with the query. kNoTile ends the work
    SentTile<Tuning> producer_tiles[kConfig.paged_kv ? kProducerTiles : 1];  // only producers use it
    sm90::RingBarriers<kConfig.q_stages> q_ring[kConfig.consumer_warpgroups];
    sm90::RingBarriers<kConfig.kv_stages> k_ring;
    sm90::RingBarriers<kConfig.kv_stages> v_ring;
    sm90::RingBarriers<kProducerTiles> producer_tile_ring;  // pages only

    __device__ __forceinline__ void init_barriers() {
        for (auto& ring : q_ring) ring.init(kWarpgroupWarps);
        k_ring.init(consumer_warps(kConfig));
        v_ring.init(consumer_warps(kConfig));
        if constexpr (kConfig.paged_kv) producer_tile_ring.init(kProducerTileReaders);
        ptx::fence_mbarrier_init();
    }
};

}  // namespace flashcore::attention
