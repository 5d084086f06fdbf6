// The consumers of packed queries with more rows than one row tile: a warpgroup attends from 64 rows to all keys of a split, a tile
// at a time. wgmma reads keys and values from shared memory once for all rows, and each warp owns 16 rows. So no sums of warps are
// merged at the end of a split.
#pragma once

#include "flashcore/decode/consumer.cuh"
#include "flashcore/decode/warpgroup_end.cuh"
#include "flashcore/ptx/tma.cuh"
#include "flashcore/ptx/wgmma.cuh"

namespace flashcore::decode {

template <class Tuning>
class WarpgroupConsumer : Consumer<Tuning> {
    using Base = Consumer<Tuning>;
    using Base::kConfig, Base::kKSteps;
    using Base::params_, Base::shared_, Base::warp_, Base::lane_, Base::keys_, Base::hidden_, Base::ring_, Base::query_;
    using typename Base::Element, typename Base::Traits;

    static constexpr int kTileKeys = kConfig.tile_keys;
    static constexpr int kAtomColumns = kConfig.head_dim / Traits::kSwizzleAtomColumns;
    static constexpr int kThreads = kConfig.consumer_warps * sm90::kWarpThreads;
    static constexpr int kConsumerBarrier = 1;
    using QkMma = ptx::Wgmma<Element, kTileKeys>;
    using PvMma = ptx::Wgmma<Element, kConfig.head_dim>;

public:
    using Base::Base;

    __device__ __forceinline__ void run() {
        for (SplitOf<Tuning> split = this->pop_split(); split.work_tile != kNoWorkTile; split = this->pop_split()) {
            this->load_query(split);
            const FixupInfo fixup = fixup_info<true>(params_.split_policy, shared_.cta_ranges, split);
            if (fixup.split_count > 1 && warp_ == 0 && lane_ == 0) ptx::prefetch_l2(params_.counters + fixup.counter);
            if constexpr (kConfig.local) {
                this->split_window_ = this->find_window(split);
                prefetch_sinks(split);
            }
            attend(split);
            WarpgroupEnd<Tuning>(params_, shared_, split, fixup, warp_, lane_).run(state_);
        }
    }

private:
    // The end of the split needs them, and a busy memory system answers late.
    __device__ __forceinline__ void prefetch_sinks(const SplitOf<Tuning>& split) const {
        if constexpr (kConfig.local) {
            const PackedRows rows = packed_rows<Tuning>(params_, split);
            const int head = WorkTile(params_, rows, split).kv_head * rows.group;
            if (params_.local.sinks == nullptr || warp_ != 0 || lane_ != 0) return;
            ptx::prefetch_l2(static_cast<const char*>(params_.local.sinks) + head * (params_.local.bf16_sinks ? 2 : 4));
        }
    }

    __device__ __forceinline__ void attend(const SplitOf<Tuning>& split) {
        keys_ = split.keys;
#pragma unroll
        for (int r = 0; r < sm90::kRowsPerLane; ++r) {
            state_.row_max[r] = sm90::minus_infinity();
            state_.row_sum[r] = 0.0f;
        }
#pragma unroll
        for (float& sum : state_.output) sum = 0.0f;
        const int unmasked_keys = keys_ - (params_.rows.causal ? split.queries() - 1 : 0);  // that all rows see
#pragma unroll 1
        for (int tile = sm90::uniform(split.first); tile < sm90::uniform(split.last); ++tile) {
            ring_.make_uniform();
            ring_.wait_full(shared_.ring);
            const int first_key = tile * kTileKeys;
            clear_unused_values(first_key);
            issue_qk();
            if constexpr (kConfig.local) {
                limit(first_key);
            } else if (first_key + kTileKeys > unmasked_keys || params_.score_sign != 1.0f) {
                mask(first_key);
            }
            softmax();
            issue_pv();
            __syncwarp();
            ring_.release(shared_.ring, lane_ == 0);
            ring_.advance();
        }
    }

    // Values after the last key may be anything, and 0 * NaN is NaN. So they become zero. So do those before every window.
    __device__ __forceinline__ void clear_unused_values(int first_key) {
        int first = 0;
        if constexpr (kConfig.local) first = min_int(max_int(this->split_window().first_of_all - first_key, 0), kTileKeys);
        const int last = min_int(max_int(keys_ - first_key, first), kTileKeys);
        if (first == 0 && last == kTileKeys) return;
        constexpr int kRowUnits = sm90::kSwizzleBytes / sm90::kUnitBytes;
        auto* const values = reinterpret_cast<uint4*>(shared_.v[ring_.slot]);
#pragma unroll 1
        for (int i = warp_ * sm90::kWarpThreads + lane_; i < kAtomColumns * kTileKeys * kRowUnits; i += kThreads) {
            const int key = i / kRowUnits % kTileKeys;
            if (key < first || key >= last) values[i] = make_uint4(0, 0, 0, 0);
        }
        ptx::fence_proxy_async_shared();
        ptx::named_barrier_sync(kConsumerBarrier, kThreads);
    }

    __device__ __forceinline__ void issue_qk() {
        const uint64_t keys = sm90::k_major_descriptor(shared_.k[ring_.slot]);
        ptx::warpgroup_fence_operand(scores_);
        ptx::wgmma_fence();
#pragma unroll
        for (int k_step = 0; k_step < kKSteps; ++k_step) {
            QkMma::template registers<ptx::Major::kK>(scores_, query_[k_step], keys + sm90::k_major_offset(k_step, kTileKeys),
                                                      k_step > 0);
        }
        ptx::wgmma_commit();
        ptx::wgmma_wait<0>();
        ptx::warpgroup_fence_operand(scores_);
#pragma unroll
        for (auto& operand : query_) ptx::warpgroup_fence_operand(operand);
    }

    __device__ __forceinline__ void issue_pv() {
        const uint64_t values = sm90::mn_major_descriptor(shared_.v[ring_.slot], kTileKeys);
        ptx::warpgroup_fence_operand(state_.output);
        ptx::warpgroup_fence_operand(probabilities_);
        ptx::wgmma_fence();
#pragma unroll
        for (int k_step = 0; k_step < kTileKeys / Traits::kMmaK; ++k_step) {
            PvMma::template registers<ptx::Major::kMn>(state_.output, probabilities_ + 4 * k_step,
                                                       values + sm90::mn_major_offset<Element>(k_step), 1);
        }
        ptx::wgmma_commit();
        ptx::wgmma_wait<0>();
        ptx::warpgroup_fence_operand(state_.output);
        ptx::warpgroup_fence_operand(probabilities_);
    }

    // Sets scores of keys that a row may not see to -infinity, whatever they were.
    __device__ __forceinline__ void mask(int first_key) {
        const int key = first_key + lane_ % sm90::kQuadLanes * 2;
#pragma unroll
        for (int i = 0; i < kTileKeys / 2; ++i) {
            const bool visible = key + i / 4 * sm90::kMmaN + i % 2 < keys_ - hidden_[i % 4 / 2];
            scores_[i] = visible ? scores_[i] * params_.score_sign : sm90::minus_infinity();
        }
    }

    __device__ __forceinline__ void limit(int first_key) {
        const int key = first_key + lane_ % sm90::kQuadLanes * 2;
        const int skipped = this->split_window().skipped;
        const Local& local = params_.local;
        if (local.cap > 0.0f) {
#pragma unroll
            for (float& score : scores_) score = capped(score, local.cap, local.cap_factor);
        } else if (params_.score_sign != 1.0f) {
#pragma unroll
            for (float& score : scores_) score *= params_.score_sign;
        }
#pragma unroll
        for (int r = 0; r < sm90::kRowsPerLane; ++r) {
            const KeyRange range = this->range_of(skipped, keys_, this->position_of(r));
#pragma unroll
            for (int i = 0; i < kTileKeys / 4; ++i) {
                const int column = key + i / 2 * sm90::kMmaN + i % 2;
                float& score = scores_[i / 2 * 4 + 2 * r + i % 2];
                score = range.first <= column && column < range.last ? score : sm90::minus_infinity();
            }
        }
    }

    // Turns scores into probabilities and rescales the earlier sums to the new max.
    __device__ __forceinline__ void softmax() {
        float factor[sm90::kRowsPerLane];
        bool needs_rescale = false;
#pragma unroll
        for (int r = 0; r < sm90::kRowsPerLane; ++r) {
            float tile_max = sm90::minus_infinity();
#pragma unroll
            for (int i = 0; i < kTileKeys / 4; ++i) tile_max = fmaxf(tile_max, scores_[i / 2 * 4 + 2 * r + i % 2]);
            const float row_max = fmaxf(state_.row_max[r], sm90::quad_max(tile_max));
            const float subtracted_max = finite_max(row_max);
            needs_rescale |= row_max > state_.row_max[r];
            factor[r] = ptx::exp2_approx((state_.row_max[r] - subtracted_max) * params_.scale_log2);
            state_.row_max[r] = row_max;
            state_.row_sum[r] *= factor[r];
#pragma unroll
            for (int i = 0; i < kTileKeys / 4; ++i) {
                float& score = scores_[i / 2 * 4 + 2 * r + i % 2];
                score = ptx::exp2_approx((score - subtracted_max) * params_.scale_log2);
                state_.row_sum[r] += score;
            }
        }
#pragma unroll
        for (int i = 0; i < kTileKeys / 4; ++i) probabilities_[i] = ptx::pack<Element>(scores_[2 * i], scores_[2 * i + 1]);
        if (!__any_sync(sm90::kFullWarpMask, needs_rescale)) return;
#pragma unroll
        for (int i = 0; i < kConfig.head_dim / 2; ++i) state_.output[i] *= factor[i % 4 / 2];
    }

    float scores_[kTileKeys / 2];
    uint32_t probabilities_[kTileKeys / 4];
    WarpgroupState<kConfig.head_dim> state_;
};

}  // namespace flashcore::decode
