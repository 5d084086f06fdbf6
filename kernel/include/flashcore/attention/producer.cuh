// The producer: one thread that keeps the rings of query, key and value tiles full.
#pragma once

#include "flashcore/attention/params.h"
#include "flashcore/attention/schedule.h"
#include "flashcore/attention/shared_storage.cuh"
#include "flashcore/ptx/tma.cuh"

namespace flashcore::attention {

// One copy for each column block of the tile.
template <int kHeadDim, int kRows>
__device__ __forceinline__ void load_tile(uint8_t* shared, const CUtensorMap* map, uint64_t* full, int row, int head, int batch) {
#pragma unroll
    for (int column = 0; column < kHeadDim; column += sm90::kBlockColumns) {
        ptx::tma_load_4d(shared + column / sm90::kBlockColumns * sm90::block_bytes(kRows), map, full, column, row, head, batch);
    }
}

template <class Tuning>
class Producer {
public:
    static constexpr Config kConfig = Tuning::config;

    __device__ __forceinline__ Producer(const Params& params, SharedStorage<Tuning>& shared) : params_(params), shared_(shared) {}

    __device__ __forceinline__ void run() {
        TileQueue queue(params_);
        for (int index = queue.take(); index != kNoTile; index = queue.take()) {
            const Tile tile = tile_at(params_, index, kConfig.tile_m);
            load_query(tile);
            load_keys_and_values(tile);
        }
        q_.wait_empty(shared_.q_ring);
        shared_.tile[q_.slot] = {kNoTile, 0, 0};
        q_.announce(shared_.q_ring, 0);
    }

private:
    __device__ __forceinline__ void load_query(const Tile& tile) {
        q_.wait_empty(shared_.q_ring);
        shared_.tile[q_.slot] = tile;
        uint64_t* full = q_.announce(shared_.q_ring, query_tile_bytes(kConfig));
        load_tile<kConfig.head_dim, kConfig.tile_m>(shared_.q[q_.slot], &params_.q, full, tile.first_row, tile.head, tile.batch);
        q_.advance();
    }

    // In the consumers' order: the keys of a step are wanted before the values of the step before it.
    __device__ __forceinline__ void load_keys_and_values(const Tile& tile) {
        const int head = tile.head / params_.heads_per_kv_head;
        const int steps = needed_key_tiles<kConfig.causal>(params_, tile.first_row, kConfig.tile_m, kConfig.tile_n);
        for (int step = steps - 1; step >= 0; --step) {
            load(k_, shared_.k_ring, shared_.k, &params_.k, step, head, tile.batch);
            if (step + 1 < steps) load(v_, shared_.v_ring, shared_.v, &params_.v, step + 1, head, tile.batch);
        }
        if (steps > 0) load(v_, shared_.v_ring, shared_.v, &params_.v, 0, head, tile.batch);
    }

    using Position = sm90::RingPosition<kConfig.kv_stages>;
    using Ring = sm90::RingBarriers<kConfig.kv_stages>;
    using Tiles = uint8_t[kConfig.kv_stages][key_tile_bytes(kConfig)];

    __device__ __forceinline__ static void load(Position& position, Ring& ring, Tiles& tiles, const CUtensorMap* map, int step,
                                                int head, int batch) {
        position.wait_empty(ring);
        uint64_t* full = position.announce(ring, key_tile_bytes(kConfig));
        load_tile<kConfig.head_dim, kConfig.tile_n>(tiles[position.slot], map, full, step * kConfig.tile_n, head, batch);
        position.advance();
    }

    const Params& params_;
    SharedStorage<Tuning>& shared_;
    sm90::RingPosition<kConfig.q_stages> q_;
    Position k_;
    Position v_;
};

}  // namespace flashcore::attention
