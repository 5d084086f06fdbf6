// A consumer warpgroup attends from 64 query rows to all KV blocks that they need.
#pragma once

#include "flashcore/attention/kv_iteration.cuh"
#include "flashcore/attention/smem_tile.cuh"

namespace flashcore::attention {

template <class Tuning>
class Consumer : KvIteration<Tuning> {
    using Base = KvIteration<Tuning>;
    using Base::finish_pv, Base::issue_pv, Base::issue_qk, Base::issue_qk_and_pv, Base::release;
    using Base::kConfig, Base::kReleasesQueryAfterQk;
    using Base::params_, Base::shared_, Base::ping_pong_, Base::lane_, Base::coordinate_, Base::visible_,
        Base::fully_masked_n_blocks_, Base::n_block_;
    using Base::unmasked_n_blocks_, Base::query_, Base::next_query_, Base::k_, Base::v_, Base::query_fragment_, Base::output_;
    using typename Base::Element, typename Base::KvBlock, typename Base::Params, typename Base::QueryPosition;

public:
    using Base::Base;

    __device__ __forceinline__ void run() {
        ping_pong_.init();
        for (Tile tile = wait_next_tile(); tile.row != kNoTile; tile = wait_next_tile()) {
            switch (work_kind_in(tile)) {
                case WorkKind::kAttend: attend(tile); break;
                case WorkKind::kStoreZeros: store_zeros(tile); break;
                case WorkKind::kOutOfRange: skip_out_of_range_tile(tile); break;
            }
        }
        ping_pong_.drain();
    }

private:
    // The schedule. QK(j) is issued before PV(j-1), so the softmax of block j overlaps with PV(j-1). The last PV of a tile
    // overlaps with the first QK and softmax of the next tile, if that tile has any.
    __device__ __forceinline__ void attend(const Tile& tile) {
        SoftmaxState state;
        begin_tile(tile);
        k_.wait_full(shared_.k_ring);
        issue_qk();
        this->template finish_qk<0>();
        this->template softmax<KvBlock::kMasked>(state, [] {});
        zero(output_);
        skip_masked_values();
        for (;;) {
            k_.make_uniform();
            v_.make_uniform();
            query_.make_uniform();
            if constexpr (kConfig.local) {
                attend_through_window(state);
            } else {
#pragma unroll 1
                for (int remaining = sm90::uniform(n_block_ - unmasked_n_blocks_); remaining > 0; --remaining)
                    inner_iteration<KvBlock::kMasked>(state);
#pragma unroll 1
                for (int remaining = sm90::uniform(n_block_); remaining > 0; --remaining)
                    inner_iteration<KvBlock::kUnmasked>(state);
            }
            const Tile next = wait_next_tile();
            if (work_kind_in(next) != WorkKind::kAttend) break;
            epilogue_overlapped_iteration(state, next);
        }
        ping_pong_.sync();
        issue_pv();
        ping_pong_.arrive_next();
        finish_pv();
        store(state, coordinate_, query_);
    }

    // Masked blocks, unmasked ones, and masked ones again.
    __device__ __forceinline__ void attend_through_window(SoftmaxState& state) {
        int masked = sm90::uniform(n_block_ - unmasked_n_blocks_);
        int unmasked = sm90::uniform(unmasked_n_blocks_ - this->window_.first_unmasked);
#pragma unroll 1
        for (;;) {
#pragma unroll 1
            for (int remaining = masked; remaining > 0; --remaining) inner_iteration<KvBlock::kMasked>(state);
#pragma unroll 1
            for (int remaining = unmasked; remaining > 0; --remaining) inner_iteration<KvBlock::kUnmasked>(state);
            masked = sm90::uniform(n_block_ - this->window_.first);
            if (masked == 0) break;
            unmasked = 0;
        }
    }

    template <KvBlock kBlock>
    __device__ __forceinline__ void inner_iteration(SoftmaxState& state) {
        --n_block_;
        issue_qk_and_pv();
        this->template finish_qk<1, kBlock == KvBlock::kUnmasked && kConfig.recompute_qk>();
        const Rescale rescale = this->template softmax<kBlock>(state, [this] { finish_pv(); });
        if (rescale.needed) multiply(output_, rescale);
    }

    // QK belongs to the next tile, PV to the finished one.
    __device__ __forceinline__ void epilogue_overlapped_iteration(SoftmaxState& state, const Tile& next) {
        const QueryPosition finished = query_;
        const RowCoordinate coordinate = coordinate_;
        begin_tile(next);
        issue_qk_and_pv();
        const SoftmaxState finished_state = state;
        state = SoftmaxState{};
        this->template finish_qk<1>();
        this->template softmax<KvBlock::kMasked>(state, [&] {
            finish_pv();
            store(finished_state, coordinate, finished);
        });
        zero(output_);
        skip_masked_values();
    }

    // This warpgroup has no rows in the tile. It releases its query slot before it passes the ping-pong barriers. With one query
    // slot the producer loads the next query before some keys that other warpgroups need for their last iteration here. A late
    // release deadlocks.
    __device__ __forceinline__ void skip_out_of_range_tile(const Tile& tile) {
        release(next_query_);
        next_query_.advance();
#pragma unroll 1
        for (int remaining = tile_n_blocks<Tuning>(params_, tile); remaining > 0; --remaining) {
            skip(k_, shared_.k_ring);
            ping_pong_.sync();
            ping_pong_.arrive_next();
            skip(v_, shared_.v_ring);
        }
    }

    // KV blocks that only other warpgroups of the tile need. Their keys pass before the first QK here, their barriers and values
    // after it.
    __device__ __forceinline__ void skip_masked_keys() {
#pragma unroll 1
        for (int n_block = 0; n_block < fully_masked_n_blocks_; ++n_block) skip(k_, shared_.k_ring);
    }
    __device__ __forceinline__ void skip_masked_values() {
#pragma unroll 1
        for (int n_block = 0; n_block < fully_masked_n_blocks_; ++n_block) {
            ping_pong_.sync();
            ping_pong_.arrive_next();
            skip(v_, shared_.v_ring);
        }
    }

    __device__ __forceinline__ RowCoordinate coordinate_in(const Tile& tile) const {
        return {tile.row + thread_row(), tile.head, tile.batch};
    }

    // Waits for the next tile's query and returns that tile.
    __device__ __forceinline__ Tile wait_next_tile() const {
        next_query_.wait_full(shared_.q_ring[ping_pong_.warpgroup]);
        return tile_in_slot(next_query_);
    }

    // Only the lane that releases the slot reads the tile from it, so program order keeps the read before the release.
    __device__ __forceinline__ Tile tile_in_slot(const QueryPosition& query) const {
        Tile tile{};
        if (lane_ == 0) tile = shared_.tile[ping_pong_.warpgroup][query.slot];
        return {sm90::uniform(tile.row), sm90::uniform(tile.head), sm90::uniform(tile.batch), sm90::uniform(tile.rows),
                sm90::uniform(tile.visible)};
    }

    __device__ __forceinline__ WorkKind work_kind_in(const Tile& tile) const {
        return work_kind<Tuning>(params_, tile, ping_pong_.warpgroup);
    }

    // This thread's first row within the tile.
    __device__ __forceinline__ int thread_row() const {
        return ping_pong_.warpgroup * kWarpgroupRows + warp_row() + lane_ / kQuadLanes;
    }

    // This warp's first row within the rows of the warpgroup.
    __device__ __forceinline__ static int warp_row() {
        return static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpThreads * kWarpRows;
    }

    __device__ __forceinline__ void begin_tile(const Tile& tile) {
        const WarpgroupWork work = warpgroup_work<Tuning>(params_, tile, ping_pong_.warpgroup);
        coordinate_ = coordinate_in(tile);
        visible_ = kConfig.local ? tile.visible - 1 + thread_row() : visible_keys<kConfig.causal>(tile, thread_row());
        if constexpr (kConfig.local) {
            this->window_ = {sm90::uniform(tile.visible - 1 + tile.rows), sm90::uniform(work.first),
                             sm90::uniform(work.first_unmasked)};
        }
        // One shuffle per value. With fewer, ptxas treated the loops of D=256 causal as divergent, and a KV iteration had 46
        // R2UR.
        fully_masked_n_blocks_ = sm90::uniform(work.fully_masked);
        unmasked_n_blocks_ = sm90::uniform(work.unmasked);
        n_block_ = sm90::uniform(work.n_blocks - work.fully_masked - 1);
        query_ = next_query_;
        next_query_.advance();
        if constexpr (kConfig.query_in_registers) {
            load_query_fragment<Element, kConfig.head_dim, kWarpgroupRows>(shared_.q[ping_pong_.warpgroup][query_.slot],
                                                                           query_fragment_, warp_row(), lane_);
            release(query_);
        }
        skip_masked_keys();
    }

    // Stores the log-sum-exp of finished rows and returns the factor of their output.
    __device__ __forceinline__ Rescale finalize_softmax(SoftmaxState state, const RowCoordinate& coordinate) const {
#pragma unroll
        for (int r = 0; r < kRowsPerLane; ++r) {
            state.row_sum[r] = quad_sum(state.row_sum[r]);
        }
        if constexpr (kConfig.local) {
            if (local_of(params_).sinks != nullptr) return finalize_with_sink(params_, coordinate, state, lane_);
        }
        const Rescale inverse = inverse_row_sum(state);
        store_lse(params_, coordinate, state, lane_);
        return inverse;
    }

    // With a TMA store, rows go to the slot of their query. Every warp of this warpgroup has passed a ping-pong barrier since its
    // last QK with that query, so no warp still reads it.
    __device__ __forceinline__ void store(const SoftmaxState& state, RowCoordinate coordinate, const QueryPosition& query) {
        if constexpr (kConfig.tma_store_epilogue) coordinate = coordinate_in(tile_in_slot(query));  // registers are short here
        const Rescale inverse = finalize_softmax(state, coordinate);
        if constexpr (kConfig.tma_store_epilogue) {
            uint8_t* const tile = shared_.q[ping_pong_.warpgroup][query.slot];
            multiply(output_, inverse);
            store_rows_to_shared<Element, kConfig.head_dim>(tile, output_, warp_row(), lane_);
            ptx::fence_proxy_async_shared();
            __syncwarp();
            if (lane_ == 0) tma_store_rows<Element, kConfig.head_dim>(params_, coordinate, tile, warp_row());
            release(query);
        } else {
            store_rows_to_global<Element>(params_, coordinate, output_, inverse, lane_);
        }
    }

    // A tile whose rows see no key gives zeros and a log-sum-exp of -infinity.
    __device__ __forceinline__ void store_zeros(const Tile& tile) {
        begin_tile(tile);
        if constexpr (kReleasesQueryAfterQk) release(query_);
        zero(output_);
        store(SoftmaxState{}, coordinate_, query_);
    }

    template <int kSlots>
    __device__ __forceinline__ void skip(sm90::RingPosition<kSlots>& position, sm90::RingBarriers<kSlots>& ring) const {
        position.wait_full(ring);
        __syncwarp();
        position.release(ring, lane_ == 0);
        position.advance();
    }
};

}  // namespace flashcore::attention
