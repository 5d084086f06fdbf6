// The layout of shared memory of attention in E4M3 with shared registers.
#pragma once

#include <cstdint>

#include "flashcore/attention/e4m3/config.h"
#include "flashcore/attention/tile_scheduler.h"
#include "flashcore/sm90/pipeline.cuh"
#include "flashcore/sm90/smem_descriptor.cuh"

namespace flashcore::attention::e4m3 {

template <class Tuning>
struct alignas(sm90::kSwizzleAtomBytes) Storage {
    static constexpr Config kConfig = Tuning::config;

    uint8_t q[kConfig.consumer_warpgroups][kConfig.q_stages][query_bytes(kConfig)];
    uint8_t k[kConfig.kv_stages][key_bytes(kConfig)];
    uint8_t v[kConfig.kv_stages][value_slot_bytes(kConfig, Tuning::softmax)];  // ones may follow the values
    Tile tile[kConfig.consumer_warpgroups][kConfig.q_stages];  // arrives with the query. kNoTile ends the work
    ProducerTile producer_tile;                                // only the producer uses it
    float k_factor[Tuning::softmax.block_scales ? kConfig.kv_stages : 0];  // of a KV block. Arrives with the keys
    float v_factor[Tuning::softmax.block_scales ? kConfig.kv_stages : 0];
    sm90::RingBarriers<kConfig.q_stages> q_ring[kConfig.consumer_warpgroups];
    sm90::RingBarriers<kConfig.kv_stages> k_ring;
    sm90::RingBarriers<kConfig.kv_stages> v_ring;
    int head_and_sequence;  // what consumers get in the place of the head. Only the producer uses it, like the next one
    int first_value;        // where the sequence begins in a row of transposed values
    int value_batch;        // 0 if a row has all sequences

    __device__ __forceinline__ void init_barriers() {
        for (auto& ring : q_ring) ring.init(kWarpgroupWarps);
        k_ring.init(consumer_warps(kConfig));
        v_ring.init(consumer_warps(kConfig));
        ptx::fence_mbarrier_init();
    }
};

}  // namespace flashcore::attention::e4m3
