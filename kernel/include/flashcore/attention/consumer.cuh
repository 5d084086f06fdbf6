// A consumer warpgroup: 64 query rows against every key tile that they need.
#pragma once

#include <type_traits>

#include "flashcore/attention/epilogue.cuh"
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
    using Element = std::conditional_t<kConfig.dtype == DType::kFp16, __half, __nv_bfloat16>;

    __device__ __forceinline__ Consumer(const Params& params, SharedStorage<Tuning>& shared, int warpgroup)
        : params_(params),
          shared_(shared),
          turn_{warpgroup},
          lane_(static_cast<int>(threadIdx.x) % kWarpThreads),
          warp_row_(warpgroup * kWarpgroupRows + static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpThreads * kWarpRows) {}

    __device__ __forceinline__ void run() {
        turn_.open();
        while (arriving_row() != kNoTile) {
            if (steps_of(arriving_row()) > 0) {
                attend();
            } else {
                store_zeros();
            }
        }
        turn_.close();
    }

private:
    // The schedule. A step's scores are issued before the output of the step before it, and its softmax runs beneath that
    // output. The last output of a tile runs beneath the first scores and softmax of the next one, if that has any.
    __device__ __forceinline__ void attend() {
        Rows rows;
        begin_tile();
        issue_scores();
        finish_scores<0>();
        softmax(rows);
        pack<Element>(scores_, probabilities_);
        clear(output_);
        for (;;) {
            k_.make_uniform();
            v_.make_uniform();
            query_slot_ = sm90::uniform(query_slot_);
#pragma unroll 1
            for (int remaining = sm90::uniform(step_); remaining > 0; --remaining) inner_step(rows);
            if (steps_of(arriving_row()) == 0) break;
            crossing_step(rows);
        }
        turn_.take();
        issue_output();
        turn_.pass();
        const Rescale inverse = finish_rows(rows, query_slot_);
        finish_output();
        store(inverse, query_slot_);
    }

    __device__ __forceinline__ void inner_step(Rows& rows) {
        --step_;
        turn_.take();
        issue_scores();
        issue_output();
        turn_.pass();
        finish_scores<1>();
        const Rescale rescale = softmax(rows);
        finish_output();
        pack<Element>(scores_, probabilities_);
        multiply(output_, rescale);
    }

    // The scores belong to the next tile, the output to the finished one.
    __device__ __forceinline__ void crossing_step(Rows& rows) {
        const int finished_slot = query_slot_;
        begin_tile();
        turn_.take();
        issue_scores();
        issue_output();
        turn_.pass();
        const Rescale inverse = finish_rows(rows, finished_slot);
        rows = Rows{};
        finish_scores<1>();
        softmax(rows);
        finish_output();
        store(inverse, finished_slot);
        pack<Element>(scores_, probabilities_);
        clear(output_);
    }

    // First row of the tile whose query arrives next; waits for it.
    __device__ __forceinline__ int arriving_row() const {
        arriving_.wait_full(shared_.q_ring);
        return shared_.tile[arriving_.slot].first_row;
    }

    __device__ __forceinline__ int steps_of(int first_row) const {
        if (first_row == kNoTile) return 0;
        return needed_key_tiles<kConfig.causal>(params_, first_row, kConfig.tile_m, kConfig.tile_n);
    }

    __device__ __forceinline__ void begin_tile() {
        const int first_row = arriving_row();
        query_slot_ = arriving_.slot;
        arriving_.advance();
        step_ = steps_of(first_row) - 1;
        clear_steps_ = clear_key_tiles<kConfig.causal>(params_, first_row + turn_.warpgroup * kWarpgroupRows, kConfig.tile_n);
        row_ = first_row + warp_row_ + lane_ / kQuadLanes;
    }

    __device__ __forceinline__ void issue_scores() {
        k_.wait_full(shared_.k_ring);
        const uint64_t q = sm90::row_operand(shared_.q[query_slot_] + turn_.warpgroup * sm90::block_bytes(kWarpgroupRows));
        const uint64_t k = sm90::row_operand(shared_.k[k_.slot]);
        ptx::pin(scores_);
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < kConfig.head_dim / sm90::kMmaDepth; ++step) {
            ptx::Wgmma<Element, kConfig.tile_n>::shared(scores_, q + sm90::row_step(step, kConfig.tile_m),
                                                        k + sm90::row_step(step, kConfig.tile_n), step > 0);
        }
        ptx::wgmma_commit();
    }

    template <int kGroupsInFlight>
    __device__ __forceinline__ void finish_scores() {
        ptx::wgmma_wait<kGroupsInFlight>();
        ptx::pin(scores_);
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
            const uint32_t* p = probabilities_ + 4 * step;
            ptx::Wgmma<Element, kConfig.head_dim>::registers(output_, p[0], p[1], p[2], p[3], v + sm90::column_step(step), 1);
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

    __device__ __forceinline__ Rescale softmax(Rows& rows) {
        constexpr float kUnchanged = 1.0f;
        if (params_.score_sign != kUnchanged) multiply(scores_, params_.score_sign);
        if (step_ >= clear_steps_) {
            const int first_key = step_ * kConfig.tile_n + lane_ % kQuadLanes * 2;
            mask(scores_, {visible_keys<kConfig.causal>(params_, row_) - first_key,
                           visible_keys<kConfig.causal>(params_, row_ + sm90::kGroupRows) - first_key});
        }
        return exponentiate(scores_, rows, params_.scale_log2);
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

    __device__ __forceinline__ static void clear(float (&values)[kConfig.head_dim / 2]) {
#pragma unroll
        for (int i = 0; i < kConfig.head_dim / 2; ++i) values[i] = 0.0f;
    }

    const Params& params_;
    SharedStorage<Tuning>& shared_;
    Turn<kConfig.consumer_warpgroups> turn_;
    int lane_;
    int warp_row_;     // this warp's first row within the tile
    int query_slot_;   // where the query of the scores lies
    int step_;         // key tile of the scores; they run from the last to the first
    int clear_steps_;  // key tiles below this one need no mask
    int row_;          // the first of this thread's two query rows
    sm90::RingPosition<kConfig.q_stages> arriving_;
    sm90::RingPosition<kConfig.kv_stages> k_;
    sm90::RingPosition<kConfig.kv_stages> v_;
    float scores_[kConfig.tile_n / 2];
    uint32_t probabilities_[kConfig.tile_n / 4];
    float output_[kConfig.head_dim / 2];
};

}  // namespace flashcore::attention
