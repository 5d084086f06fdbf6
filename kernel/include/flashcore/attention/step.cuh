// One step of a consumer warpgroup: the scores of a key tile, their softmax, and the output that they add to. This is how;
// consumer.cuh says when.
#pragma once

#include <type_traits>

#include "flashcore/attention/epilogue.cuh"
#include "flashcore/attention/params.h"
#include "flashcore/attention/schedule.h"
#include "flashcore/attention/share.h"
#include "flashcore/attention/shared_storage.cuh"
#include "flashcore/attention/softmax.cuh"
#include "flashcore/attention/turn.cuh"
#include "flashcore/ptx/wgmma.cuh"

namespace flashcore::attention {

template <class Tuning>
class Step {
public:
    static constexpr Config kConfig = Tuning::config;
    using Element = std::conditional_t<kConfig.dtype == DType::kFp16, __half, __nv_bfloat16>;
    using Scores = ptx::Wgmma<Element, kConfig.tile_n>;
    using Output = ptx::Wgmma<Element, kConfig.head_dim>;
    using Query = sm90::RingPosition<kConfig.q_stages>;
    static constexpr bool kFreesQueryAfterScores = !kConfig.query_in_registers && !kConfig.staged_output;

    // Clear keys are seen by every row of this warpgroup, with scores that keep their sign: the main loop has no test.
    enum class Keys { kClear, kAny };

    __device__ __forceinline__ Step(const Params& params, SharedStorage<Tuning>& shared, int warpgroup)
        : params_(params),
          shared_(shared),
          turn_{warpgroup},
          lane_(static_cast<int>(threadIdx.x) % kWarpThreads) {}

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

    // The keys stay for a step that may want its scores once more.
    template <int kGroupsInFlight, bool kKeysStay = false>
    __device__ __forceinline__ void finish_scores() {
        ptx::wgmma_wait<kGroupsInFlight>();
        ptx::pin(scores_);
        if constexpr (!kKeysStay) release_keys();
        if constexpr (kConfig.query_in_registers) ptx::pin(operand_);
        if constexpr (kFreesQueryAfterScores) {
            if (step_ == 0) release(query_);
        }
    }

    __device__ __forceinline__ void release_keys() {
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
        const int visible = visible_ - first_key;
        mask(scores_, {visible, kConfig.causal ? visible + sm90::kGroupRows : visible});
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
        float offset[kRowsPerLane];
        const Rescale rescale = raise_maximum(scores_, rows, offset, params_.scale_log2, params_.slack);
        finish();
        float sum[kRowsPerLane];
        exponentiate<Element>(scores_, offset, params_.scale_log2, sum, probabilities_);
        add(rows.sum, sum);
        return rescale;
    }

    // As if no score exceeded what is subtracted by much: true of nearly every step but the first, and no maximum is needed to
    // find out. Where it is not true the step begins again, with the maximum. Its scores are still there, or they are computed
    // once more, which only a whole warpgroup can do.
    __device__ __forceinline__ Rescale guess(Rows& rows) {
        float sum[kRowsPerLane];
        exponentiate<Element>(scores_, rows.offset, params_.scale_log2, sum, probabilities_);
        Rescale rescale;
        if (!holds(small(sum))) {
            if constexpr (kConfig.scores_again) {
                issue_scores();
                finish_scores<0, true>();
            }
            float offset[kRowsPerLane];
            rescale = raise_maximum(scores_, rows, offset, params_.scale_log2, params_.slack);
            exponentiate<Element>(scores_, offset, params_.scale_log2, sum, probabilities_);
        }
        if constexpr (kConfig.scores_again) release_keys();
        add(rows.sum, sum);
        return rescale;
    }

    // Whether it holds for all who would have to begin the step again together.
    __device__ __forceinline__ bool holds(bool mine) const {
        if constexpr (kConfig.scores_again) mine = ptx::named_barrier_all(kVoteBarrier + turn_.warpgroup, kWarpgroupThreads, mine);
        return __all_sync(kWholeWarp, mine);  // for the compiler too, which else takes the loop for divergent
    }

    const Params& params_;
    SharedStorage<Tuning>& shared_;
    Turn<Tuning> turn_;
    int lane_;
    Place place_;      // of this thread's query rows
    int visible_;      // keys that the first of them sees
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
    float output_[kConfig.head_dim / 2];
};

}  // namespace flashcore::attention
