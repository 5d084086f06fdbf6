// A consumer warpgroup: 64 query rows against every key tile that they need.
#pragma once

#include <type_traits>

#include "flashcore/attention/epilogue.cuh"
#include "flashcore/attention/fragment.cuh"
#include "flashcore/attention/params.h"
#include "flashcore/attention/share.h"
#include "flashcore/attention/shared_storage.cuh"
#include "flashcore/attention/softmax.cuh"
#include "flashcore/attention/turn.cuh"
#include "flashcore/ptx/wgmma.cuh"

namespace flashcore::attention {

template <class Tuning>
class Consumer {
public:
    static constexpr Config kConfig = Tuning::config;
    using Element = std::conditional_t<kConfig.dtype == DType::kFp16, __half, __nv_bfloat16>;
    using Scores = ptx::Wgmma<Element, kConfig.tile_n>;
    static constexpr int kOutputColumns = kConfig.head_dim + (kConfig.sums_in_products ? kColumnsPerFragment : 0);
    using Output = ptx::Wgmma<Element, kOutputColumns>;

    __device__ __forceinline__ Consumer(const Params& params, SharedStorage<Tuning>& shared, int warpgroup)
        : params_(params),
          shared_(shared),
          turn_{warpgroup},
          lane_(static_cast<int>(threadIdx.x) % kWarpThreads) {}

    __device__ __forceinline__ void run() {
        turn_.open();
        while (arriving_tile().first_row != kNoTile) {
            switch (arriving_part()) {
                case Part::kAttend: attend(); break;
                case Part::kStoreZeros: store_zeros(); break;
                case Part::kSitOut: sit_out(); break;
            }
        }
        turn_.close();
    }

private:
    using Query = sm90::RingPosition<kConfig.q_stages>;
    static constexpr bool kFreesQueryAfterScores = !kConfig.query_in_registers && !kConfig.staged_output;

    // Clear keys are seen by every row of this warpgroup, with scores that keep their sign: the main loop has no test.
    enum class Keys { kClear, kAny };

    static constexpr bool kAdd = !kConfig.sums_in_products;  // exponentials are added up here

    // The schedule. A step's scores are issued before the output of the step before it, and its softmax runs beneath that
    // output. The last output of a tile runs beneath the first scores and softmax of the next one, if that has any.
    __device__ __forceinline__ void attend() {
        Rows rows;
        begin_tile();
        k_.wait_full(shared_.k_ring);
        issue_scores();
        finish_scores<0>();
        softmax<Keys::kAny>(rows, [] {});
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
            if (arriving_part() != Part::kAttend) break;
            crossing_step(rows);
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
        finish_scores<1>();
        const Rescale rescale = softmax<kKeys>(rows, [this] { finish_output(); });
        if (rescale.needed) multiply(output_, rescale);
    }

    // The scores belong to the next tile, the output to the finished one.
    __device__ __forceinline__ void crossing_step(Rows& rows) {
        const Query finished = query_;
        const Place place = place_;
        begin_tile();
        issue_scores_and_output();
        const Rows finished_rows = rows;
        rows = Rows{};
        finish_scores<1>();
        softmax<Keys::kAny>(rows, [&] {
            finish_output();
            store(finished_rows, place, finished);
        });
        clear(output_);
        skip_values();
    }

    // None of this warpgroup's rows exists: the others must not wait for it.
    __device__ __forceinline__ void sit_out() {
#pragma unroll 1
        for (int remaining = tile_steps<Tuning>(params_, arriving_tile()); remaining > 0; --remaining) {
            skip(k_, shared_.k_ring);
            turn_.take();
            turn_.pass();
            skip(v_, shared_.v_ring);
        }
        release(arriving_);
        arriving_.advance();
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
        return {tile.first_row + turn_.warpgroup * kWarpgroupRows + warp_row() + lane_ / kQuadLanes, tile.sequence};
    }

    // The tile whose query arrives next; waits for it.
    __device__ __forceinline__ const Tile& arriving_tile() const {
        arriving_.wait_full(shared_.q_ring[turn_.warpgroup]);
        return shared_.tile[turn_.warpgroup][arriving_.slot];
    }

    __device__ __forceinline__ Part arriving_part() const { return part_of<Tuning>(params_, arriving_tile(), turn_.warpgroup); }

    // This warp's first row within those of the warpgroup.
    __device__ __forceinline__ static int warp_row() {
        return static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpThreads * kWarpRows;
    }

    __device__ __forceinline__ void begin_tile() {
        const Tile tile = {sm90::uniform(arriving_tile().first_row), sm90::uniform(arriving_tile().sequence)};
        const Share share = share_of<Tuning>(params_, tile, turn_.warpgroup);
        place_ = place_in(tile);
        skipped_ = share.skipped;
        clear_steps_ = share.clear;
        step_ = share.steps - share.skipped - 1;
        query_ = arriving_;
        arriving_.advance();
        if constexpr (kConfig.query_in_registers) {
            load_rows<kConfig.head_dim, kWarpgroupRows>(shared_.q[turn_.warpgroup][query_.slot], operand_, warp_row(), lane_);
            release(query_);
        }
        skip_keys();
    }

    __device__ __forceinline__ void release(const Query& query) {
        __syncwarp();
        query.release(shared_.q_ring[turn_.warpgroup], lane_ == 0);
    }

    __device__ __forceinline__ void issue_scores_and_output() {
        k_.wait_full(shared_.k_ring);  // not within the turn: nobody else could issue meanwhile
        turn_.take();
        issue_scores();
        issue_output();
        turn_.pass();
    }

    __device__ __forceinline__ void issue_scores() {
        const uint64_t k = sm90::row_operand(shared_.k[k_.slot]);
        ptx::pin(scores_);
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < kConfig.head_dim / sm90::kMmaDepth; ++step) {
            const uint64_t keys = k + sm90::row_step(step, kConfig.tile_n);
            if constexpr (kConfig.query_in_registers) {
                Scores::template registers<ptx::Major::kK>(scores_, operand_ + 4 * step, keys, step > 0);
            } else {
                const uint64_t q = sm90::row_operand(shared_.q[turn_.warpgroup][query_.slot]);
                Scores::shared(scores_, q + sm90::row_step(step, kWarpgroupRows), keys, step > 0);
            }
        }
        ptx::wgmma_commit();
    }

    template <int kGroupsInFlight>
    __device__ __forceinline__ void finish_scores() {
        ptx::wgmma_wait<kGroupsInFlight>();
        ptx::pin(scores_);
        k_.release(shared_.k_ring, lane_ == 0);
        k_.advance();
        if constexpr (kConfig.query_in_registers) ptx::pin(operand_);
        if constexpr (kFreesQueryAfterScores) {
            if (step_ == 0) release(query_);
        }
    }

    __device__ __forceinline__ void issue_output() {
        v_.wait_full(shared_.v_ring);
        const uint64_t v = kConfig.sums_in_products ? sm90::column_operand_beside(shared_.v[v_.slot], &shared_.ones)
                                                    : sm90::column_operand(shared_.v[v_.slot], kConfig.tile_n);
        ptx::pin(output_);
        ptx::pin(probabilities_);
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < kConfig.tile_n / sm90::kMmaDepth; ++step) {
            const uint64_t values = v + (kConfig.sums_in_products ? sm90::column_step_beside(step) : sm90::column_step(step));
            Output::template registers<ptx::Major::kMn>(output_, probabilities_ + 4 * step, values, 1);
        }
        ptx::wgmma_commit();
    }

    __device__ __forceinline__ void finish_output() {
        ptx::wgmma_wait<0>();
        ptx::pin(output_);
        ptx::pin(probabilities_);
        v_.release(shared_.v_ring, lane_ == 0);
        v_.advance();
    }

    __device__ __forceinline__ void adjust_scores() {
        if (params_.score_sign != kUnchanged) multiply(scores_, params_.score_sign);
        if (step_ < clear_steps_) return;
        const int first_key = step_ * kConfig.tile_n + lane_ % kQuadLanes * 2;
        mask(scores_, {visible_keys<kConfig.causal>(params_, place_.row) - first_key,
                       visible_keys<kConfig.causal>(params_, place_.row + sm90::kGroupRows) - first_key});
    }

    // Turns scores into probabilities. `finish` makes their registers free: it waits for the output that still reads the last
    // ones. It comes before the exponentials because whatever else waits there was measured to be slower.
    template <Keys kKeys, class Finish>
    __device__ __forceinline__ Rescale softmax(Rows& rows, Finish finish) {
        if constexpr (kKeys == Keys::kAny) adjust_scores();
        if constexpr (kKeys == Keys::kClear && kConfig.optimistic) {
            finish();
            return guess(rows);
        }
        float offset[kRowsPerThread];
        const Rescale rescale = raise_maximum(scores_, rows, offset, params_.scale_log2, params_.slack);
        finish();
        exponentiate<Element, kAdd>(scores_, offset, params_.scale_log2, rows.sum, probabilities_);
        return rescale;
    }

    // As if no score exceeded what is subtracted by much: true of nearly every step but the first, and no maximum is needed to
    // find out. Where it is not true the step begins again, with the maximum: the scores are still there.
    __device__ __forceinline__ Rescale guess(Rows& rows) {
        float sum[kRowsPerThread] = {0.0f, 0.0f};
        exponentiate<Element, kAdd>(scores_, rows.offset, params_.scale_log2, sum, probabilities_);
        Rescale rescale;
        if (!__all_sync(kWholeWarp, right(sum))) {
            float offset[kRowsPerThread];
            rescale = raise_maximum(scores_, rows, offset, params_.scale_log2, params_.slack);
            sum[0] = sum[1] = 0.0f;
            exponentiate<Element, kAdd>(scores_, offset, params_.scale_log2, sum, probabilities_);
        }
        rows.sum[0] += sum[0];
        rows.sum[1] += sum[1];
        return rescale;
    }

    __device__ __forceinline__ bool right(const float (&sum)[kRowsPerThread]) const {
        if constexpr (kAdd) return small(sum);
        return small(probabilities_);
    }

    // The log-sum-exp of finished rows, and what their output is to be multiplied by.
    __device__ __forceinline__ Rescale finish_rows(Rows rows, const Place& place) const {
#pragma unroll
        for (int r = 0; r < kRowsPerThread; ++r) {
            rows.sum[r] = kAdd ? quad_sum(rows.sum[r]) : output_[(kConfig.head_dim + 4 * r) / 2];
        }
        const Rescale inverse = normalise(rows);
        store_lse(params_, place, rows, lane_);
        return inverse;
    }

    // Staged rows go where the query was: every warp of this warpgroup has taken a turn since it finished the last scores of that
    // query, so nobody reads it any more.
    __device__ __forceinline__ void store(const Rows& rows, Place place, const Query& query) {
        if constexpr (kConfig.staged_output) place = place_in(shared_.tile[turn_.warpgroup][query.slot]);  // registers are short there
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
    __device__ __forceinline__ void store_zeros() {
        begin_tile();
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

    const Params& params_;
    SharedStorage<Tuning>& shared_;
    Turn<Tuning> turn_;
    int lane_;
    Place place_;      // of this thread's query rows
    int skipped_;      // key tiles of this tile that the rows of this warpgroup do not need
    int step_;         // key tile of the scores; they run from the last to the first
    int clear_steps_;  // key tiles below this one are clear
    Query query_;      // of the scores
    Query arriving_;   // of the tile after that
    sm90::RingPosition<kConfig.kv_stages> k_;
    sm90::RingPosition<kConfig.kv_stages> v_;
    uint32_t operand_[kConfig.head_dim / 4];  // the query, if it is in registers
    float scores_[kConfig.tile_n / 2];
    uint32_t probabilities_[kConfig.tile_n / 4];
    float output_[kOutputColumns / 2];
};

}  // namespace flashcore::attention
