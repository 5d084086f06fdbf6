// A consumer warpgroup: 64 query rows against every key tile that they need.
#pragma once

#include "flashcore/attention/fragment.cuh"
#include "flashcore/attention/step.cuh"

namespace flashcore::attention {

template <class Tuning>
class Consumer : Step<Tuning> {
    using Base = Step<Tuning>;
    using typename Base::Element, typename Base::Keys, typename Base::Query;
    using Base::kConfig, Base::kFreesQueryAfterScores;
    using Base::finish_output, Base::issue_output, Base::issue_scores, Base::issue_scores_and_output, Base::release;
    using Base::params_, Base::shared_, Base::turn_, Base::lane_, Base::place_, Base::visible_, Base::skipped_, Base::step_;
    using Base::clear_steps_, Base::query_, Base::arriving_, Base::k_, Base::v_, Base::operand_, Base::output_;

public:
    using Base::Base;

    __device__ __forceinline__ void run() {
        turn_.open();
        for (Tile tile = arriving_tile(); tile.row != kNoTile; tile = arriving_tile()) {
            switch (part_in(tile)) {
                case Part::kAttend: attend(tile); break;
                case Part::kStoreZeros: store_zeros(tile); break;
                case Part::kSitOut: sit_out(tile); break;
            }
        }
        turn_.close();
    }

private:
    // The schedule. A step's scores are issued before the output of the step before it, and its softmax runs beneath that
    // output. The last output of a tile runs beneath the first scores and softmax of the next one, if that has any.
    __device__ __forceinline__ void attend(const Tile& tile) {
        Rows rows;
        begin_tile(tile);
        k_.wait_full(shared_.k_ring);
        issue_scores();
        this->template finish_scores<0>();
        this->template softmax<Keys::kAny>(rows, [] {});
        clear(output_);
        skip_values();
        for (;;) {
            k_.make_uniform();
            v_.make_uniform();
            query_.make_uniform();
#pragma unroll 1
            for (int remaining = sm90::uniform(step_ - clear_steps_); remaining > 0; --remaining) inner_step<Keys::kAny>(rows);
#pragma unroll 1
            for (int remaining = sm90::uniform(step_); remaining > 0; --remaining) inner_step<Keys::kClear>(rows);
            const Tile next = arriving_tile();
            if (part_in(next) != Part::kAttend) break;
            crossing_step(rows, next);
        }
        turn_.take();
        issue_output();
        turn_.pass();
        finish_output();
        store(rows, place_, query_);
    }

    template <Keys kKeys>
    __device__ __forceinline__ void inner_step(Rows& rows) {
        --step_;
        issue_scores_and_output();
        this->template finish_scores<1, kKeys == Keys::kClear && kConfig.scores_again>();
        const Rescale rescale = this->template softmax<kKeys>(rows, [this] { finish_output(); });
        if (rescale.needed) multiply(output_, rescale);
    }

    // The scores belong to the next tile, the output to the finished one.
    __device__ __forceinline__ void crossing_step(Rows& rows, const Tile& next) {
        const Query finished = query_;
        const Place place = place_;
        begin_tile(next);
        issue_scores_and_output();
        const Rows finished_rows = rows;
        rows = Rows{};
        this->template finish_scores<1>();
        this->template softmax<Keys::kAny>(rows, [&] {
            finish_output();
            store(finished_rows, place, finished);
        });
        clear(output_);
        skip_values();
    }

    // None of this warpgroup's rows exists: the others must not wait for it. Its slot goes back before its turns come: with one
    // slot, the keys that another warpgroup wants before its last turn in this tile are loaded after the query of the next one.
    __device__ __forceinline__ void sit_out(const Tile& tile) {
        release(arriving_);
        arriving_.advance();
#pragma unroll 1
        for (int remaining = tile_steps<Tuning>(tile); remaining > 0; --remaining) {
            skip(k_, shared_.k_ring);
            turn_.take();
            turn_.pass();
            skip(v_, shared_.v_ring);
        }
    }

    // Steps that only others in the tile need: their keys go before the first scores here, their turns and values after.
    __device__ __forceinline__ void skip_keys() {
#pragma unroll 1
        for (int step = 0; step < skipped_; ++step) skip(k_, shared_.k_ring);
    }
    __device__ __forceinline__ void skip_values() {
#pragma unroll 1
        for (int step = 0; step < skipped_; ++step) {
            turn_.take();
            turn_.pass();
            skip(v_, shared_.v_ring);
        }
    }

    __device__ __forceinline__ Place place_in(const Tile& tile) const {
        return {tile.row + own_row(), tile.head, tile.batch};
    }

    // The tile whose query arrives next; waits for it.
    __device__ __forceinline__ Tile arriving_tile() const {
        arriving_.wait_full(shared_.q_ring[turn_.warpgroup]);
        return tile_of(arriving_);
    }

    // Only the lane that gives a slot back reads what tile is in it, so that its own program puts one before the other.
    __device__ __forceinline__ Tile tile_of(const Query& query) const {
        Tile tile{};
        if (lane_ == 0) tile = shared_.tile[turn_.warpgroup][query.slot];
        return {sm90::uniform(tile.row), sm90::uniform(tile.head), sm90::uniform(tile.batch), sm90::uniform(tile.rows),
                sm90::uniform(tile.visible)};
    }

    __device__ __forceinline__ Part part_in(const Tile& tile) const { return part_of<Tuning>(tile, turn_.warpgroup); }

    // This thread's first row within the tile.
    __device__ __forceinline__ int own_row() const { return turn_.warpgroup * kWarpgroupRows + warp_row() + lane_ / kQuadLanes; }

    // This warp's first row within those of the warpgroup.
    __device__ __forceinline__ static int warp_row() {
        return static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpThreads * kWarpRows;
    }

    __device__ __forceinline__ void begin_tile(const Tile& tile) {
        const Share share = share_of<Tuning>(params_, tile, turn_.warpgroup);
        place_ = place_in(tile);
        visible_ = visible_keys<kConfig.causal>(tile, own_row());
        // A shuffle for each: with fewer ptxas took the loops of D=256 causal for divergent, and a step had 46 R2UR.
        skipped_ = sm90::uniform(share.skipped);
        clear_steps_ = sm90::uniform(share.clear);
        step_ = sm90::uniform(share.steps - share.skipped - 1);
        query_ = arriving_;
        arriving_.advance();
        if constexpr (kConfig.query_in_registers) {
            load_rows<kConfig.head_dim, kWarpgroupRows>(shared_.q[turn_.warpgroup][query_.slot], operand_, warp_row(), lane_);
            release(query_);
        }
        skip_keys();
    }

    // The log-sum-exp of finished rows, and what their output is to be multiplied by.
    __device__ __forceinline__ Rescale finish_rows(Rows rows, const Place& place) const {
#pragma unroll
        for (int r = 0; r < kRowsPerLane; ++r) {
            rows.sum[r] = quad_sum(rows.sum[r]);
        }
        const Rescale inverse = normalise(rows);
        store_lse(params_, place, rows, lane_);
        return inverse;
    }

    // Staged rows go where the query was: every warp of this warpgroup has taken a turn since it finished the last scores of that
    // query, so nobody reads it any more.
    __device__ __forceinline__ void store(const Rows& rows, Place place, const Query& query) {
        if constexpr (kConfig.staged_output) place = place_in(tile_of(query));  // registers are short there
        const Rescale inverse = finish_rows(rows, place);
        if constexpr (kConfig.staged_output) {
            uint8_t* const tile = shared_.q[turn_.warpgroup][query.slot];
            multiply(output_, inverse);
            stage_rows<Element, kConfig.head_dim>(tile, output_, warp_row(), lane_);
            ptx::fence_async_shared();
            __syncwarp();
            if (lane_ == 0) send_rows<kConfig.head_dim>(params_, place, tile, warp_row());
            release(query);
        } else {
            store_rows<Element>(params_, place, output_, inverse, lane_);
        }
    }

    // A tile whose rows see no key: zeros, and a log-sum-exp of -infinity.
    __device__ __forceinline__ void store_zeros(const Tile& tile) {
        begin_tile(tile);
        if constexpr (kFreesQueryAfterScores) release(query_);
        clear(output_);
        store(Rows{}, place_, query_);
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
