// The producer of attention in E4M3 with shared registers: one thread, as in attention/producer.cuh.
#pragma once

#include "flashcore/attention/e4m3/block_descale.cuh"
#include "flashcore/attention/e4m3/storage.cuh"
#include "flashcore/attention/params.h"
#include "flashcore/ptx/tma.cuh"

namespace flashcore::attention::e4m3 {

template <class Tuning>
class Producer {
public:
    static constexpr Config kConfig = Tuning::config;
    static constexpr bool kBlockScales = Tuning::softmax.block_scales;
    static constexpr bool kVarlen = !kBlockScales;

    __device__ __forceinline__ Producer(const ParamsFor<Tuning>& params, Storage<Tuning>& shared)
        : params_(params), shared_(shared), scheduler_(params) {}

    __device__ __forceinline__ void run() {
        if constexpr (kVarlen) shared_.head_and_sequence = 0;
        for (int index = scheduler_.get_next(); index != kNoTile; index = scheduler_.get_next()) {
            int number = 0;
            shared_.producer_tile = tile_at<kConfig.causal>(params_, index, kConfig.tile_m, &number);
            if constexpr (kVarlen) find_sequence(number);
            load(shared_.producer_tile);
        }
        for (int warpgroup = 0; warpgroup < kConfig.consumer_warpgroups; ++warpgroup)
            send_tile(warpgroup, {kNoTile, 0, 0, 0, 0}, 0);
    }

private:
    // The sequence of the tile's factors, and its values.
    __device__ __forceinline__ void find_sequence(int number) {
        const ProducerTile& next = shared_.producer_tile;
        int sequence = next.tile.batch;
        int first_value = 0;
        shared_.value_batch = next.kv_batch;
        if (params_.sequence_infos != nullptr) {
            shared_.value_batch = 0;  // columns of all sequences
            sequence = params_.sequences[number];
            first_value = first_value_block(next.kv_batch + next.first_key - kBatchRows, sequence) * kTileN;
        }
        shared_.head_and_sequence = next.tile.head | sequence << params_.head_bits;
        shared_.first_value = first_value;
    }

    // The keys of block j before the values of block j + 1. The first keys do not wait for the slot of the query.
    __device__ __forceinline__ void load(const ProducerTile& next) {
        const Tile& tile = next.tile;
        const int n_blocks = needed_blocks<Tuning>(params_, tile, 0, kConfig.tile_m).end;
        const int kv_head = quotient(tile.head, params_.heads_per_kv_head);
        const int batch = kVarlen ? next.kv_batch : tile.batch;
        if constexpr (kBlockScales) read_first_factors(n_blocks, kv_head, batch);
        if (n_blocks > 0) load_keys(n_blocks - 1, kv_head, batch);
        load_query(tile);
        if (n_blocks == 0) scheduler_.prefetch_next();
#pragma unroll 1
        for (int n_block = n_blocks - 1; n_block >= 0; --n_block) {
            float v_factor = 1.0f;
            if constexpr (kBlockScales) v_factor = read_next_factors(n_block, kv_head, batch);
            if (n_block > 0) {
                load_keys(n_block - 1, kv_head, batch);
            } else {
                scheduler_.prefetch_next();
            }
            v_.wait_empty(shared_.v_ring);
            if constexpr (kBlockScales) shared_.v_factor[v_.slot] = v_factor;
            uint64_t* full = v_.arrive_and_expect_tx(shared_.v_ring, value_bytes(kConfig));
            const int first_value = kVarlen ? shared_.first_value : 0;
            const int value_batch = kVarlen ? shared_.value_batch : batch;
            ptx::tma_load_5d(shared_.v[v_.slot], &params_.v, full, first_value + n_block * kTileN, 0, kv_head, value_batch, 0);
            v_.advance();
        }
    }

    __device__ __forceinline__ void load_keys(int n_block, int kv_head, int batch) {
        k_.wait_empty(shared_.k_ring);
        if constexpr (kBlockScales) shared_.k_factor[k_.slot] = k_factor_;
        uint64_t* full = k_.arrive_and_expect_tx(shared_.k_ring, key_bytes(kConfig));
        const int first_key = kVarlen ? shared_.producer_tile.first_key : 0;
        load_columns<kTileN>(shared_.k[k_.slot], &params_.k, full, first_key + n_block * kTileN, kv_head, batch);
        k_.advance();
    }

    // Factors are read a KV block ahead, so that the thread waits for slots and not for memory.
    __device__ __forceinline__ void read_first_factors(int n_blocks, int kv_head, int batch) {
        if (n_blocks == 0) return;
        k_factor_ = HeadFactors(params_.k_blocks, batch, kv_head)[n_blocks - 1];
        next_k_factor_ = HeadFactors(params_.k_blocks, batch, kv_head)[max(n_blocks - 2, 0)];
        next_v_factor_ = HeadFactors(params_.v_blocks, batch, kv_head)[n_blocks - 1];
    }

    // Returns the factor of the values of this block. k_factor_ becomes that of the keys of the block before.
    __device__ __forceinline__ float read_next_factors(int n_block, int kv_head, int batch) {
        const float v_factor = next_v_factor_;
        k_factor_ = next_k_factor_;
        next_k_factor_ = HeadFactors(params_.k_blocks, batch, kv_head)[max(n_block - 2, 0)];
        next_v_factor_ = HeadFactors(params_.v_blocks, batch, kv_head)[max(n_block - 1, 0)];
        return v_factor;
    }

    __device__ __forceinline__ void load_query(const Tile& tile) {
#pragma unroll
        for (int warpgroup = 0; warpgroup < kConfig.consumer_warpgroups; ++warpgroup) {
            uint64_t* full = send_tile(warpgroup, tile, query_bytes(kConfig));
            load_columns<kWarpgroupRows>(shared_.q[warpgroup][q_.slot], &params_.q, full, tile.row + warpgroup * kWarpgroupRows,
                                         tile.head, tile.batch);
        }
        q_.advance();
    }

    // One copy per column of swizzle atoms.
    template <int kRows>
    __device__ __forceinline__ void load_columns(uint8_t* shared, const CUtensorMap* map, uint64_t* full, int row, int head,
                                                 int batch) {
#pragma unroll
        for (int column = 0; column < padded_columns(kConfig); column += kAtomColumns) {
            ptx::tma_load_5d(shared + column / kAtomColumns * sm90::atom_column_bytes(kRows), map, full, column, row, head, batch,
                             kVarlen ? params_.wrap : 0);
        }
    }

    // Sends the next tile to a warpgroup and returns the barrier that the bytes of its query complete.
    __device__ __forceinline__ uint64_t* send_tile(int warpgroup, const Tile& tile, uint32_t bytes) {
        q_.wait_empty(shared_.q_ring[warpgroup]);
        shared_.tile[warpgroup][q_.slot] = {tile.row, tile.head, tile.batch, tile.rows, tile.visible};
        if constexpr (kVarlen) shared_.tile[warpgroup][q_.slot].head = shared_.head_and_sequence;
        return q_.arrive_and_expect_tx(shared_.q_ring[warpgroup], bytes);
    }

    const ParamsFor<Tuning>& params_;
    Storage<Tuning>& shared_;
    DynamicPersistentTileScheduler scheduler_;
    sm90::RingPosition<kConfig.q_stages> q_;
    sm90::RingPosition<kConfig.kv_stages> k_;
    sm90::RingPosition<kConfig.kv_stages> v_;
    float k_factor_;  // of the keys that load_keys sends
    float next_k_factor_;
    float next_v_factor_;
};

}  // namespace flashcore::attention::e4m3
