// The producer: one thread that keeps the rings of query, key and value tiles full.
#pragma once

#include "flashcore/attention/params.h"
#include "flashcore/attention/schedule.h"
#include "flashcore/attention/shared_storage.cuh"
#include "flashcore/ptx/tma.cuh"

namespace flashcore::attention {

// One copy for each column block of the tile.
template <int kHeadDim, int kRows>
__device__ __forceinline__ void load_tile(uint8_t* shared, const CUtensorMap* map, uint64_t* full, int row, int head,
                                          int batch) {
#pragma unroll
    for (int column = 0; column < kHeadDim; column += sm90::kBlockColumns) {
        ptx::tma_load_4d(shared + column / sm90::kBlockColumns * sm90::block_bytes(kRows), map, full, column, row, head, batch);
    }
}

template <class Tuning>
__device__ __forceinline__ void produce(const Params& params, SharedStorage<Tuning>& shared) {
    constexpr Config kConfig = Tuning::config;
    sm90::RingPosition<kConfig.q_stages> q;
    sm90::RingPosition<kConfig.kv_stages> k;
    sm90::RingPosition<kConfig.kv_stages> v;

    for (int index = blockIdx.x; index < params.schedule.tiles; index += gridDim.x) {
        const Tile tile = tile_at(params, index, kConfig.tile_m);
        const int kv_head = tile.head / params.heads_per_kv_head;
        const auto load_key = [&](int step) {
            uint64_t* full = k.acquire(shared.k_ring, key_tile_bytes(kConfig));
            load_tile<kConfig.head_dim, kConfig.tile_n>(shared.k[k.slot], &params.k, full, step * kConfig.tile_n, kv_head,
                                                        tile.batch);
            k.advance();
        };
        const auto load_value = [&](int step) {
            uint64_t* full = v.acquire(shared.v_ring, key_tile_bytes(kConfig));
            load_tile<kConfig.head_dim, kConfig.tile_n>(shared.v[v.slot], &params.v, full, step * kConfig.tile_n, kv_head,
                                                        tile.batch);
            v.advance();
        };

        uint64_t* full = q.acquire(shared.q_ring, query_tile_bytes(kConfig));
        load_tile<kConfig.head_dim, kConfig.tile_m>(shared.q[q.slot], &params.q, full, tile.first_row, tile.head, tile.batch);
        q.advance();

        // The consumers' order: the keys of a step are wanted before the values of the step before it.
        const int steps = needed_key_tiles<kConfig.causal>(params, tile.first_row, kConfig.tile_m, kConfig.tile_n);
        for (int step = steps - 1; step >= 0; --step) {
            load_key(step);
            if (step + 1 < steps) load_value(step + 1);
        }
        if (steps > 0) load_value(0);
    }
}

}  // namespace flashcore::attention
