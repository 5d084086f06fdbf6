// A consumer warpgroup: 64 query rows against every key tile that they need.
#pragma once

#include <type_traits>

#include "flashcore/attention/epilogue.cuh"
#include "flashcore/attention/params.h"
#include "flashcore/attention/schedule.h"
#include "flashcore/attention/shared_storage.cuh"
#include "flashcore/attention/softmax.cuh"
#include "flashcore/ptx/warpgroup.cuh"
#include "flashcore/ptx/wgmma.cuh"

namespace flashcore::attention {

// Named barriers; 0 is __syncthreads. One of each kind for every consumer warpgroup.
constexpr int kMaxConsumers = 3;
constexpr int kTurnBarrier = 1;
constexpr int kOutputBarrier = kTurnBarrier + kMaxConsumers;

// The consumers issue their products in turn, so that one's softmax runs beneath the others' products.
template <int kConsumers>
struct Turn {
    static constexpr int kThreads = 2 * kWarpgroupThreads;  // the one that waits and the one that passes
    int warpgroup;

    // The first turn is given by the last warpgroup, and taken back at the end so that no barrier is left half full.
    __device__ __forceinline__ void open() const {
        if (warpgroup == kConsumers - 1) pass();
    }
    __device__ __forceinline__ void close() const {
        if (warpgroup == 0) take();
    }
    __device__ __forceinline__ void take() const { ptx::named_barrier_sync(kTurnBarrier + warpgroup, kThreads); }
    __device__ __forceinline__ void pass() const {
        ptx::named_barrier_arrive(kTurnBarrier + (warpgroup + 1) % kConsumers, kThreads);
    }
};

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
          warp_row_(warpgroup * kWarpgroupRows +
                    static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpThreads * kWarpRows) {}

    __device__ __forceinline__ void run() {
        turn_.open();
        for (int index = next_tile(); index != kNoTile; index = next_tile()) {
            const Tile tile = tile_at(params_, index, kConfig.tile_m);
            Rows rows;
            clear(output_);
            attend(tile, rows);
            store(tile, rows);
            q_.advance();
        }
        turn_.close();
    }

private:
    // Waits for a query and says which tile it belongs to.
    __device__ __forceinline__ int next_tile() {
        q_.wait_full(shared_.q_ring);
        return shared_.tile[q_.slot];
    }

    // The schedule: scores of a step, then the output of the step before it beneath this step's softmax.
    __device__ __forceinline__ void attend(const Tile& tile, Rows& rows) {
        const int group_row = tile.first_row + turn_.warpgroup * kWarpgroupRows;
        const int steps = needed_key_tiles<kConfig.causal>(params_, tile.first_row, kConfig.tile_m, kConfig.tile_n);
        const int clear_steps = clear_key_tiles<kConfig.causal>(params_, group_row, kConfig.tile_n);
        if (steps == 0) return;

        issue_scores();
        finish_scores<0>();
        softmax(tile, rows, steps - 1, clear_steps);
        pack<Element>(scores_, probabilities_);
#pragma unroll 1
        for (int step = steps - 2; step >= 0; --step) {
            turn_.take();
            issue_scores();
            issue_output();
            turn_.pass();
            finish_scores<1>();
            const Rescale rescale = softmax(tile, rows, step, clear_steps);
            finish_output();
            pack<Element>(scores_, probabilities_);
            multiply(output_, rescale);
        }
        issue_output();
        finish_output();
    }

    __device__ __forceinline__ void issue_scores() {
        k_.wait_full(shared_.k_ring);
        const uint64_t q = sm90::row_operand(shared_.q[q_.slot] + turn_.warpgroup * sm90::block_bytes(kWarpgroupRows));
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

    __device__ __forceinline__ Rescale softmax(const Tile& tile, Rows& rows, int step, int clear_steps) {
        constexpr float kUnchanged = 1.0f;
        if (params_.score_sign != kUnchanged) multiply(scores_, params_.score_sign);
        if (step >= clear_steps) {
            const int first_key = step * kConfig.tile_n + lane_ % 4 * 2;
            const int row = tile.first_row + warp_row_ + lane_ / 4;
            mask(scores_, {visible_keys<kConfig.causal>(params_, row) - first_key,
                           visible_keys<kConfig.causal>(params_, row + sm90::kGroupRows) - first_key});
        }
        return exponentiate(scores_, rows, params_.scale_log2);
    }

    __device__ __forceinline__ void store(const Tile& tile, Rows& rows) {
        multiply(output_, normalise(rows));
        ptx::named_barrier_sync(kOutputBarrier + turn_.warpgroup, kWarpgroupThreads);  // the query's last reader is done
        stage_rows<Element, kConfig.head_dim, kConfig.tile_m>(shared_.q[q_.slot], output_, warp_row_, lane_);
        ptx::fence_async_shared();
        __syncwarp();
        if (lane_ == 0) send_rows<kConfig.head_dim, kConfig.tile_m>(params_, tile, shared_.q[q_.slot], warp_row_);
        q_.release(shared_.q_ring, lane_ == 0);
        store_lse(params_, tile, rows, warp_row_, lane_);
    }

    __device__ __forceinline__ static void clear(float (&values)[kConfig.head_dim / 2]) {
#pragma unroll
        for (int i = 0; i < kConfig.head_dim / 2; ++i) values[i] = 0.0f;
    }

    const Params& params_;
    SharedStorage<Tuning>& shared_;
    Turn<kConfig.consumer_warpgroups> turn_;
    int lane_;
    int warp_row_;  // this warp's first row within the tile
    sm90::RingPosition<kConfig.q_stages> q_;
    sm90::RingPosition<kConfig.kv_stages> k_;
    sm90::RingPosition<kConfig.kv_stages> v_;
    float scores_[kConfig.tile_n / 2];
    uint32_t probabilities_[kConfig.tile_n / 4];
    float output_[kConfig.head_dim / 2];
};

}  // namespace flashcore::attention
