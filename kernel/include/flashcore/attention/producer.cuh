// The producer: one thread that keeps the rings of query, key and value tiles full.
#pragma once

#include "flashcore/attention/params.h"
#include "flashcore/attention/shared_storage.cuh"
#include "flashcore/attention/tile_scheduler.h"
#include "flashcore/core/element.cuh"
#include "flashcore/ptx/tma.cuh"

namespace flashcore::attention {

// One TMA copy per column of swizzle atoms.
template <class Element, int kHeadDim, int kRows>
__device__ __forceinline__ void load_tile(uint8_t* shared, const CUtensorMap* map, uint64_t* full, int row, int head, int batch,
                                          int wrap) {
    constexpr int kAtomColumns = sm90::ElementTraits<Element>::kSwizzleAtomColumns;
#pragma unroll
    for (int column = 0; column < kHeadDim; column += kAtomColumns) {
        ptx::tma_load_5d(shared + column / kAtomColumns * sm90::atom_column_bytes(kRows), map, full, column, row, head, batch,
                         wrap);
    }
}

// Adds to the counter of loaded tiles, if there is one.
template <class Tuning>
__device__ __forceinline__ void count_loaded(const Params& params, int n_blocks) {
    if constexpr (Tuning::config.local) {
        if (local_of(params).loaded_tiles != nullptr) atomicAdd(local_of(params).loaded_tiles, static_cast<unsigned>(n_blocks));
    }
}

template <class Tuning>
class Producer {
public:
    static constexpr Config kConfig = Tuning::config;
    using Element = OperandOf<kConfig.dtype>;

    __device__ __forceinline__ Producer(const Params& params, SharedStorage<Tuning>& shared)
        : params_(params), shared_(shared), scheduler_(params) {}

    __device__ __forceinline__ void run() {
        for (int index = scheduler_.get_next(); index != kNoTile; index = scheduler_.get_next()) {
            shared_.producer_tiles[0] =
                tile_at<kConfig.causal>(params_, index, kConfig.tile_m);  // in shared memory, because registers are short
            load(shared_.producer_tiles[0]);
        }
        for (int warpgroup = 0; warpgroup < kConfig.consumer_warpgroups; ++warpgroup)
            send_tile(warpgroup, {kNoTile, 0, 0, 0, 0}, 0);
    }

protected:
    // Loads in the consumers' order: the keys of block j before the values of block j+1. The first keys do not wait for the query
    // slot, which is in use until the last QK of the tile before.
    __device__ __forceinline__ void load(const ProducerTile& next) {
        const auto [first, n_blocks] = needed_blocks<Tuning>(params_, next.tile, 0, kConfig.tile_m);
        count_loaded<Tuning>(params_, n_blocks - first);
        batch_ = next.kv_batch;
        first_key_ = next.first_key;
        kv_head_ = quotient(next.tile.head, params_.heads_per_kv_head);
        if (n_blocks > first) load_n_block(k_, shared_.k_ring, shared_.k, &params_.k, n_blocks - 1);
        load_query(next.tile);
        if (n_blocks == first) scheduler_.prefetch_next();
#pragma unroll 1
        for (int n_block = n_blocks - 1; n_block >= first; --n_block) {
            if (n_block > first) {
                load_n_block(k_, shared_.k_ring, shared_.k, &params_.k, n_block - 1);
            } else {
                scheduler_.prefetch_next();
            }
            load_n_block(v_, shared_.v_ring, shared_.v, &params_.v, n_block);
        }
    }

    __device__ __forceinline__ void load_query(const Tile& tile) {
#pragma unroll
        for (int warpgroup = 0; warpgroup < kConfig.consumer_warpgroups; ++warpgroup) load_rows(tile, warpgroup);
        q_.advance();
    }

    // A warpgroup's rows of a tile.
    __device__ __forceinline__ void load_rows(const Tile& tile, int warpgroup) {
        uint64_t* full = send_tile(warpgroup, tile, query_part_bytes(kConfig));
        load_tile<Element, kConfig.head_dim, kWarpgroupRows>(shared_.q[warpgroup][q_.slot], &params_.q, full,
                                                             tile.row + warpgroup * kWarpgroupRows, tile.head, tile.batch,
                                                             params_.wrap);
    }

    // Sends the next tile to a warpgroup and returns the barrier that the bytes of its query complete.
    __device__ __forceinline__ uint64_t* send_tile(int warpgroup, const Tile& tile, uint32_t bytes) {
        q_.wait_empty(shared_.q_ring[warpgroup]);
        shared_.tile[warpgroup][q_.slot] = {tile.row, tile.head, tile.batch, tile.rows,
                                            tile.visible};  // member by member, without the padding
        return q_.arrive_and_expect_tx(shared_.q_ring[warpgroup], bytes);
    }

    using Position = sm90::RingPosition<kConfig.kv_stages>;
    using Ring = sm90::RingBarriers<kConfig.kv_stages>;
    using Tiles = uint8_t[kConfig.kv_stages][key_tile_bytes(kConfig)];

    __device__ __forceinline__ void load_n_block(Position& position, Ring& ring, Tiles& tiles, const CUtensorMap* map,
                                                 int n_block) {
        position.wait_empty(ring);
        uint64_t* full = position.arrive_and_expect_tx(ring, key_tile_bytes(kConfig));
        load_tile<Element, kConfig.head_dim, kConfig.tile_n>(
            tiles[position.slot], map, full, first_key_ + n_block * kConfig.tile_n, kv_head_, batch_, params_.wrap);
        position.advance();
    }

    const Params& params_;
    SharedStorage<Tuning>& shared_;
    DynamicPersistentTileScheduler scheduler_;
    int batch_;      // of the current tile's keys
    int first_key_;  // where the sequence of the current tile begins in that batch
    int kv_head_;
    sm90::RingPosition<kConfig.q_stages> q_;
    Position k_;
    Position v_;
};

}  // namespace flashcore::attention
