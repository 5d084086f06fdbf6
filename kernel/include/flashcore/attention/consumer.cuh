// A consumer warpgroup: 64 query rows against every key tile that they need.
#pragma once

#include <type_traits>

#include "flashcore/attention/epilogue.cuh"
#include "flashcore/attention/fragment.cuh"
#include "flashcore/attention/params.h"
#include "flashcore/attention/schedule.h"
#include "flashcore/attention/shared_storage.cuh"
#include "flashcore/attention/softmax.cuh"
#include "flashcore/attention/turn.cuh"
#include "flashcore/ptx/wgmma.cuh"

namespace flashcore::attention {

template <class Tuning>
class Consumer {
public:
    static constexpr Config kConfig = Tuning::config;
    static constexpr bool kQueryInRegisters = query_in_registers(kConfig);
    using Element = std::conditional_t<kConfig.dtype == DType::kFp16, __half, __nv_bfloat16>;
    using Scores = ptx::Wgmma<Element, kConfig.tile_n>;
    using Output = ptx::Wgmma<Element, kConfig.head_dim>;

    __device__ __forceinline__ Consumer(const Params& params, SharedStorage<Tuning>& shared, int warpgroup)
        : params_(params),
          shared_(shared),
          turn_{warpgroup},
          lane_(static_cast<int>(threadIdx.x) % kWarpThreads),
          warp_row_(warpgroup * kWarpgroupRows + static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpThreads * kWarpRows) {}

    __device__ __forceinline__ void run() {
        turn_.open();
        while (arriving_row() != kNoTile) {
            switch (part_in(arriving_row())) {
                case Part::kAttend: attend(); break;
                case Part::kStoreZeros: store_zeros(); break;
                case Part::kSitOut: sit_out(); break;
            }
        }
        turn_.close();
    }

private:
    // What this warpgroup does in a tile. A tile without keys gives zeros; rows past the end give nothing.
    enum class Part { kAttend, kStoreZeros, kSitOut };

    // Clear keys are seen by every row of this warpgroup, with scores that keep their sign: the main loop has no test.
    enum class Keys { kClear, kAny };

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
            query_slot_ = sm90::uniform(query_slot_);
#pragma unroll 1
            for (int remaining = sm90::uniform(step_ - clear_steps_); remaining > 0; --remaining) inner_step<Keys::kAny>(rows);
#pragma unroll 1
            for (int remaining = sm90::uniform(step_); remaining > 0; --remaining) inner_step<Keys::kClear>(rows);
            if (part_in(arriving_row()) != Part::kAttend) break;
            crossing_step(rows);
        }
        turn_.take();
        issue_output();
        turn_.pass();
        const Rescale inverse = finish_rows(rows, query_slot_);
        finish_output();
        store(inverse, query_slot_);
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
        const int finished_slot = query_slot_;
        begin_tile();
        issue_scores_and_output();
        const Rescale inverse = finish_rows(rows, finished_slot);
        rows = Rows{};
        finish_scores<1>();
        softmax<Keys::kAny>(rows, [&] {
            finish_output();
            store(inverse, finished_slot);
        });
        clear(output_);
        skip_values();
    }

    // None of this warpgroup's rows exists: the others must not wait for it.
    __device__ __forceinline__ void sit_out() {
#pragma unroll 1
        for (int remaining = steps_of(arriving_row()); remaining > 0; --remaining) {
            skip(k_, shared_.k_ring);
            turn_.take();
            turn_.pass();
            skip(v_, shared_.v_ring);
        }
        __syncwarp();
        if (lane_ == 0) ptx::mbarrier_arrive(&shared_.q_ring.empty[arriving_.slot]);
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

    // First row of the tile whose query arrives next; waits for it.
    __device__ __forceinline__ int arriving_row() const {
        arriving_.wait_full(shared_.q_ring);
        return shared_.tile[arriving_.slot].first_row;
    }

    __device__ __forceinline__ int steps_of(int first_row) const {
        return needed_key_tiles<kConfig.causal>(params_, first_row, kConfig.tile_m, kConfig.tile_n);
    }

    __device__ __forceinline__ Part part_in(int first_row) const {
        if (first_row == kNoTile || steps_of(first_row) == 0) return Part::kStoreZeros;
        return first_row + turn_.warpgroup * kWarpgroupRows >= params_.sq ? Part::kSitOut : Part::kAttend;
    }

    __device__ __forceinline__ void begin_tile() {
        const int first_row = arriving_row();
        const int own_row = first_row + turn_.warpgroup * kWarpgroupRows;
        query_slot_ = arriving_.slot;
        arriving_.advance();
        const int steps = steps_of(first_row);
        const int own_steps = needed_key_tiles<kConfig.causal>(params_, own_row, kWarpgroupRows, kConfig.tile_n);
        skipped_ = min(steps - own_steps, max(steps - 1, 0));
        step_ = steps - skipped_ - 1;
        const bool unchanged = params_.score_sign == kUnchanged;
        clear_steps_ = unchanged ? clear_key_tiles<kConfig.causal>(params_, own_row, kConfig.tile_n) : 0;
        row_ = first_row + warp_row_ + lane_ / kQuadLanes;
        if constexpr (kQueryInRegisters) {
            load_rows<kConfig.head_dim, kConfig.tile_m>(shared_.q[query_slot_], query_, warp_row_, lane_);
        }
        skip_keys();
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
            if constexpr (kQueryInRegisters) {
                Scores::template registers<ptx::Major::kK>(scores_, query_ + 4 * step, keys, step > 0);
            } else {
                const uint8_t* rows = shared_.q[query_slot_] + turn_.warpgroup * sm90::block_bytes(kWarpgroupRows);
                const uint64_t q = sm90::row_operand(rows) + sm90::row_step(step, kConfig.tile_m);
                Scores::shared(scores_, q, keys, step > 0);
            }
        }
        ptx::wgmma_commit();
    }

    template <int kGroupsInFlight>
    __device__ __forceinline__ void finish_scores() {
        ptx::wgmma_wait<kGroupsInFlight>();
        ptx::pin(scores_);
        if constexpr (kQueryInRegisters) ptx::pin(query_);
        k_.release(shared_.k_ring, lane_ == 0);
        k_.advance();
    }

    __device__ __forceinline__ void issue_output() {
        v_.wait_full(shared_.v_ring);
        const uint64_t v = sm90::column_operand(shared_.v[v_.slot], kConfig.tile_n);
        ptx::pin(output_);
        ptx::pin(probabilities_);
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < kConfig.tile_n / sm90::kMmaDepth; ++step) {
            Output::template registers<ptx::Major::kMn>(output_, probabilities_ + 4 * step, v + sm90::column_step(step), 1);
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
        mask(scores_, {visible_keys<kConfig.causal>(params_, row_) - first_key,
                       visible_keys<kConfig.causal>(params_, row_ + sm90::kGroupRows) - first_key});
    }

    // Turns scores into probabilities. `finish` makes their registers free: it waits for the output that still reads the last
    // ones. It comes before the exponentials because whatever else waits there was measured to be slower.
    template <Keys kKeys, class Finish>
    __device__ __forceinline__ Rescale softmax(Rows& rows, Finish finish) {
        if constexpr (kKeys == Keys::kAny) adjust_scores();
        float offset[kRowsPerThread];
        const Rescale rescale = raise_maximum(scores_, rows, offset, params_.scale_log2, params_.slack);
        finish();
        exponentiate<Element>(scores_, offset, params_.scale_log2, rows, probabilities_);
        return rescale;
    }

    // The log-sum-exp of finished rows, and what their output is to be multiplied by.
    __device__ __forceinline__ Rescale finish_rows(Rows rows, int slot) const {
        const Rescale inverse = normalise(rows);
        store_lse(params_, shared_.tile[slot], rows, warp_row_, lane_);
        return inverse;
    }

    // Sends the output through the slot of its query. Every warp of this warpgroup has taken a turn since it finished the
    // last scores of that query, so nobody reads the slot any more.
    __device__ __forceinline__ void store(const Rescale& inverse, int slot) {
        multiply(output_, inverse);
        stage_rows<Element, kConfig.head_dim, kConfig.tile_m>(shared_.q[slot], output_, warp_row_, lane_);
        ptx::fence_async_shared();
        __syncwarp();
        if (lane_ == 0) {
            send_rows<kConfig.head_dim, kConfig.tile_m>(params_, shared_.tile[slot], shared_.q[slot], warp_row_);
            ptx::mbarrier_arrive(&shared_.q_ring.empty[slot]);
        }
    }

    // A tile whose rows see no key: zeros, and a log-sum-exp of -infinity.
    __device__ __forceinline__ void store_zeros() {
        begin_tile();
        clear(output_);
        store(finish_rows(Rows{}, query_slot_), query_slot_);
    }

    template <int kSlots>
    __device__ __forceinline__ void skip(sm90::RingPosition<kSlots>& position, sm90::RingBarriers<kSlots>& ring) const {
        position.wait_full(ring);
        __syncwarp();
        position.release(ring, lane_ == 0);
        position.advance();
    }

    static constexpr float kUnchanged = 1.0f;

    const Params& params_;
    SharedStorage<Tuning>& shared_;
    Turn<kConfig.consumer_warpgroups> turn_;
    int lane_;
    int warp_row_;     // this warp's first row within the tile
    int query_slot_;   // where the query of the scores lies
    int skipped_;      // key tiles of this tile that the rows of this warpgroup do not need
    int step_;         // key tile of the scores; they run from the last to the first
    int clear_steps_;  // key tiles below this one are clear
    int row_;          // the first of this thread's two query rows
    sm90::RingPosition<kConfig.q_stages> arriving_;
    sm90::RingPosition<kConfig.kv_stages> k_;
    sm90::RingPosition<kConfig.kv_stages> v_;
    uint32_t query_[kConfig.head_dim / 4];
    float scores_[kConfig.tile_n / 2];
    uint32_t probabilities_[kConfig.tile_n / 4];
    float output_[kConfig.head_dim / 2];
};

}  // namespace flashcore::attention
