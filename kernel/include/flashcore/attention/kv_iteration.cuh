// One KV iteration of a consumer warpgroup: QK for one KV block, its softmax, and PV. This file says how, consumer.cuh says when.
#pragma once

#include <type_traits>

#include "flashcore/attention/epilogue.cuh"
#include "flashcore/attention/params.h"
#include "flashcore/attention/ping_pong_barrier.cuh"
#include "flashcore/attention/shared_storage.cuh"
#include "flashcore/attention/softmax.cuh"
#include "flashcore/attention/tile_scheduler.h"
#include "flashcore/attention/warpgroup_work.h"
#include "flashcore/core/element.cuh"
#include "flashcore/core/sink.cuh"
#include "flashcore/ptx/wgmma.cuh"

namespace flashcore::attention {

// Of a tile and a warpgroup, with a window.
struct WindowBlocks {
    int keys;            // of the sequence
    int first;           // the last KV block that is visited
    int first_unmasked;  // KV blocks below this number need a mask
};
struct NoWindow {};

template <class Tuning>
class KvIteration {
public:
    static constexpr Config kConfig = Tuning::config;
    using Params = ParamsOf<Tuning>;
    using Element = OperandOf<kConfig.dtype>;
    using Traits = sm90::ElementTraits<Element>;
    using QkMma = ptx::Wgmma<Element, kConfig.tile_n>;
    using PvMma = ptx::Wgmma<Element, kConfig.head_dim>;
    using QueryPosition = sm90::RingPosition<kConfig.q_stages>;
    static constexpr bool kReleasesQueryAfterQk = !kConfig.query_in_registers && !kConfig.tma_store_epilogue;

    // Every row of this warpgroup sees all of an unmasked block, and the scores keep their sign. So the main loop has no tests.
    enum class KvBlock { kUnmasked, kMasked };

    __device__ __forceinline__ KvIteration(const Params& params, SharedStorage<Tuning>& shared, int warpgroup)
        : params_(params), shared_(shared), ping_pong_{warpgroup}, lane_(static_cast<int>(threadIdx.x) % kWarpThreads) {}

    __device__ __forceinline__ void release(const QueryPosition& query) {
        __syncwarp();
        query.release(shared_.q_ring[ping_pong_.warpgroup], lane_ == 0);
    }

    __device__ __forceinline__ void issue_qk_and_pv() {
        k_.wait_full(shared_.k_ring);  // wait before the barrier, or this warpgroup blocks the others meanwhile
        ping_pong_.sync();
        issue_qk();
        issue_pv();
        ping_pong_.arrive_next();
    }

    __device__ __forceinline__ void issue_qk() {
        const uint64_t k = sm90::k_major_descriptor(shared_.k[k_.slot]);
        ptx::warpgroup_fence_operand(scores_);
        ptx::wgmma_fence();
#pragma unroll
        for (int k_step = 0; k_step < kConfig.head_dim / Traits::kMmaK; ++k_step) {
            const uint64_t keys = k + sm90::k_major_offset(k_step, kConfig.tile_n);
            if constexpr (kConfig.query_in_registers) {
                QkMma::template registers<ptx::Major::kK>(scores_, query_fragment_ + 4 * k_step, keys, k_step > 0);
            } else {
                const uint64_t q = sm90::k_major_descriptor(shared_.q[ping_pong_.warpgroup][query_.slot]);
                QkMma::shared(scores_, q + sm90::k_major_offset(k_step, kWarpgroupRows), keys, k_step > 0);
            }
        }
        ptx::wgmma_commit();
    }

    // Hold the keys if the iteration may compute QK again.
    template <int kGroupsInFlight, bool kHoldKeys = false>
    __device__ __forceinline__ void finish_qk() {
        ptx::wgmma_wait<kGroupsInFlight>();
        ptx::warpgroup_fence_operand(scores_);
        if constexpr (!kHoldKeys) release_keys();
        if constexpr (kConfig.query_in_registers) ptx::warpgroup_fence_operand(query_fragment_);
        if constexpr (kReleasesQueryAfterQk) {
            if (n_block_ == first_n_block()) release(query_);
        }
    }

    __device__ __forceinline__ void release_keys() {
        k_.release(shared_.k_ring, lane_ == 0);
        k_.advance();
    }

    __device__ __forceinline__ void issue_pv() {
        v_.wait_full(shared_.v_ring);
        const uint64_t v = sm90::mn_major_descriptor(shared_.v[v_.slot], kConfig.tile_n);
        ptx::warpgroup_fence_operand(output_);
        ptx::warpgroup_fence_operand(probabilities_);
        ptx::wgmma_fence();
#pragma unroll
        for (int k_step = 0; k_step < kConfig.tile_n / Traits::kMmaK; ++k_step) {
            const uint64_t values = v + sm90::mn_major_offset<Element>(k_step);
            PvMma::template registers<ptx::Major::kMn>(output_, probabilities_ + 4 * k_step, values, 1);
        }
        ptx::wgmma_commit();
    }

    __device__ __forceinline__ void finish_pv() {
        ptx::wgmma_wait<0>();
        ptx::warpgroup_fence_operand(output_);
        ptx::warpgroup_fence_operand(probabilities_);
        v_.release(shared_.v_ring, lane_ == 0);
        v_.advance();
    }

    __device__ __forceinline__ void compute_probabilities(const float (&row_max_scaled)[kRowsPerLane],
                                                          float (&block_sum)[kRowsPerLane]) {
        exponentiate<Element>(scores_, row_max_scaled, params_.scale_log2, block_sum, probabilities_);
    }
    // The last KV block of the tile that is visited.
    __device__ __forceinline__ int first_n_block() const {
        if constexpr (kConfig.local) return window_.first;
        return 0;
    }

    __device__ __forceinline__ void cap_scores() {
        if constexpr (kConfig.softcap) {
#pragma unroll
            for (float& score : scores_) score = capped(score, local_of(params_).cap, local_of(params_).cap_factor);
        }
    }

    // `visible_` is the position of this thread's first row.
    __device__ __forceinline__ void mask_window() {
        const Window& window = local_of(params_).window;
        const int first_key = n_block_ * kConfig.tile_n + lane_ % kQuadLanes * 2;
        const KeyRange rows[kRowsPerLane] = {visible_range(window, visible_, window_.keys),
                                             visible_range(window, visible_ + sm90::kCoreMatrixRows, window_.keys)};
        mask(scores_, {rows[0].first - first_key, rows[1].first - first_key}, {rows[0].last - first_key, rows[1].last - first_key});
    }

    __device__ __forceinline__ void adjust_scores() {
        if (params_.score_sign != kUnchanged) multiply(scores_, params_.score_sign);
        if constexpr (kConfig.local) {
            mask_window();
            return;
        }
        if (n_block_ < unmasked_n_blocks_) return;
        const int first_key = n_block_ * kConfig.tile_n + lane_ % kQuadLanes * 2;
        const int visible = visible_ - first_key;
        mask(scores_, {visible, kConfig.causal ? visible + sm90::kCoreMatrixRows : visible});
    }

    // Turns scores into probabilities. `finish` waits for the PV that still reads the registers of the old probabilities. Waiting
    // here, before exp2, measured faster than after.
    template <KvBlock kBlock, class Finish>
    __device__ __forceinline__ Rescale softmax(SoftmaxState& state, Finish finish) {
        cap_scores();
        if constexpr (kBlock == KvBlock::kMasked) adjust_scores();
        if constexpr (kBlock == KvBlock::kUnmasked && kConfig.stale_max_speculation) {
            finish();
            return speculative_softmax(state);
        }
        float row_max_scaled[kRowsPerLane];
        const Rescale rescale = update_row_max(scores_, state, row_max_scaled, params_.scale_log2, params_.rescale_threshold);
        finish();
        float block_sum[kRowsPerLane];
        compute_probabilities(row_max_scaled, block_sum);
        add(state.row_sum, block_sum);
        return rescale;
    }

    // Stale-max speculation: assume that no score exceeds the old row max by much. This holds in nearly every iteration but the
    // first, and verifying it needs no new maximum. If it fails, the softmax starts again with a new maximum. The scores are
    // still in registers, or the whole warpgroup computes QK again.
    __device__ __forceinline__ Rescale speculative_softmax(SoftmaxState& state) {
        float block_sum[kRowsPerLane];
        compute_probabilities(state.row_max_scaled, block_sum);
        Rescale rescale;
        if (!verify(in_range(block_sum))) {
            if constexpr (kConfig.recompute_qk) {
                issue_qk();
                finish_qk<0, true>();
                cap_scores();
            }
            float row_max_scaled[kRowsPerLane];
            rescale = update_row_max(scores_, state, row_max_scaled, params_.scale_log2, params_.rescale_threshold);
            compute_probabilities(row_max_scaled, block_sum);
        }
        if constexpr (kConfig.recompute_qk) release_keys();
        add(state.row_sum, block_sum);
        return rescale;
    }

    // Whether the speculation holds in every lane that would have to repeat the softmax together.
    __device__ __forceinline__ bool verify(bool fits) const {
        if constexpr (kConfig.recompute_qk)
            fits = ptx::named_barrier_and(kFirstVerifyBarrier + ping_pong_.warpgroup, kWarpgroupThreads, fits);
        return __all_sync(kFullWarpMask, fits);  // also tells the compiler that the branch is uniform
    }

    const Params& params_;
    SharedStorage<Tuning>& shared_;
    PingPongBarrier<Tuning> ping_pong_;
    int lane_;
    RowCoordinate coordinate_;   // of this thread's first query row
    int visible_;                // keys that this row sees
    int fully_masked_n_blocks_;  // KV blocks of this tile that only other warpgroups need
    int n_block_;                // KV block of the scores, from the last to the first
    int unmasked_n_blocks_;      // KV blocks below this number are unmasked
    QueryPosition query_;        // query of the scores
    QueryPosition next_query_;   // query of the tile after that
    sm90::RingPosition<kConfig.kv_stages> k_;
    sm90::RingPosition<kConfig.kv_stages> v_;
    uint32_t query_fragment_[kConfig.head_dim / 4];  // used if the query is in registers
    float scores_[kConfig.tile_n / 2];
    uint32_t probabilities_[kConfig.tile_n * Traits::kBytes / 8];
    float output_[kConfig.head_dim / 2];
    // A member that other variants do not use would change their registers.
    [[no_unique_address]] std::conditional_t<kConfig.local, WindowBlocks, NoWindow> window_;
};

}  // namespace flashcore::attention
