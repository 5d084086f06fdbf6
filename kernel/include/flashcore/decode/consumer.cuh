// A consumer warp attends from 16 query rows to its part of the keys of a split, 16 keys at a time.
#pragma once

#include "flashcore/decode/merge.cuh"
#include "flashcore/decode/work_list.cuh"
#include "flashcore/ptx/math.cuh"
#include "flashcore/ptx/memory.cuh"
#include "flashcore/ptx/mma.cuh"

namespace flashcore::decode {

template <class Tuning>
class Consumer {
public:
    static constexpr Config kConfig = Tuning::config;
    using Element = typename Merge<Tuning>::Element;
    using Traits = sm90::ElementTraits<Element>;
    static constexpr int kKSteps = kConfig.head_dim / Traits::kMmaK;
    static constexpr int kKStepsPerAtom = Traits::kSwizzleAtomColumns / Traits::kMmaK;

    __device__ __forceinline__ Consumer(const Params& params, SharedStorage<Tuning>& shared, int warp, int lane)
        : params_(params), shared_(shared), warp_(warp), lane_(lane), ldmatrix_offset_(lane) {}

    // A split is known before its first tile arrives, so its query loads at the same time.
    __device__ __forceinline__ void run() {
        for (Split split = pop_split(); split.work_tile != kNoWorkTile; split = pop_split()) {
            load_query(split);
            const FixupInfo fixup = fixup_info(params_.split_policy, shared_.cta_ranges, split);
            if (fixup.split_count > 1 && warp_ == 0 && lane_ == 0) ptx::prefetch_l2(params_.counters + fixup.counter);
            attend(split);
            Merge<Tuning>(params_, shared_, split, fixup, warp_, lane_).run(state_);
        }
    }

private:
    // Waits for the next split. Only the lane that releases the slot reads it and gives it to the others.
    __device__ __forceinline__ Split pop_split() {
        work_queue_.wait_full(shared_.work_queue_ring);
        const Split split = from_first_lane(shared_.work_queue[work_queue_.slot]);
        work_queue_.release(shared_.work_queue_ring, lane_ == 0);
        work_queue_.advance();
        return split;
    }

    template <class T>
    __device__ __forceinline__ T from_first_lane(const T& value) const {
        static_assert(sizeof(T) % sizeof(int) == 0, "copied in words");
        T copy{};
        if (lane_ == 0) copy = value;
        int* const words = reinterpret_cast<int*>(&copy);
#pragma unroll
        for (size_t i = 0; i < sizeof(T) / sizeof(int); ++i) words[i] = sm90::uniform(words[i]);
        return copy;
    }

    __device__ __forceinline__ void load_query(const Split& split) {
        const PackedRows rows = packed_rows<Tuning>(params_);
        const WorkTile work_tile(params_, rows, split);
        const int first_row = work_tile.first_row + rows.tile_of(warp_) * kRowTileRows + lane_ / sm90::kQuadLanes;
#pragma unroll
        for (int r = 0; r < sm90::kRowsPerLane; ++r) {
            const int row = first_row + r * sm90::kCoreMatrixRows;
            hidden_[r] = rows.causal ? rows.sq - 1 - rows.query_of(rows.row_of(row)) : 0;
            load_row(reinterpret_cast<const uint32_t*>(query_row(params_, rows, work_tile, row)), rows.exists(row), r);
        }
    }

    // Loads a row as the A operand. Rows that do not exist are zero.
    __device__ __forceinline__ void load_row(const uint32_t* row, bool exists, int r) {
#pragma unroll
        for (int k_step = 0; k_step < kKSteps; ++k_step) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int word = k_step * (Traits::kMmaK / 2) + half * 4 + lane_ % sm90::kQuadLanes;
                query_[k_step][half * 2 + r] = exists ? __ldg(row + word) : 0;
            }
        }
    }

    __device__ __forceinline__ void attend(const Split& split) {
        keys_ = split.keys;
        state_ = {};
#pragma unroll 1
        for (int tile = split.first; tile < split.last; ++tile) {
            ring_.wait_full(shared_.ring);
            attend(tile);
            __syncwarp();
            ring_.release(shared_.ring, lane_ == 0);
            ring_.advance();
        }
    }

    // The 16-key groups of a tile are divided among the warps of a row tile. The choice depends only on the position in the
    // sequence, so the order of additions does too.
    __device__ __forceinline__ void attend(int tile) {
        const PackedRows rows = packed_rows<Tuning>(params_);
        const int groups_per_tile = (1 << params_.split_policy.tile_shift) / kMmaKeys;
        const int first_key = tile << params_.split_policy.tile_shift;
        const int groups = min_int(divide_up(keys_ - first_key, kMmaKeys), groups_per_tile);
        const int head = rows.heads == 1 ? 0 : rows.tile_of(warp_);
        const int warps_per_row_tile = kConfig.consumer_warps >> params_.rows.tile_shift;
#pragma unroll 1
        for (int group = ((warp_ >> params_.rows.tile_shift) - tile * groups_per_tile) & (warps_per_row_tile - 1); group < groups;
             group += warps_per_row_tile) {
            const int key = group * kMmaKeys;
            const int box = key >> params_.box_shift;
            const int box_key = key - (box << params_.box_shift);
            const uint32_t offset = (((box * rows.heads + head) << params_.box_shift) * kConfig.head_dim) * kBytesPerElement +
                                    box_key * sm90::kSwizzleBytes;
            attend(ptx::shared_address(shared_.k[ring_.slot]) + offset, ptx::shared_address(shared_.v[ring_.slot]) + offset,
                   first_key + key);
        }
    }

    // Attends to 16 keys of one head. In a box, the columns of swizzle atoms of a head follow each other.
    __device__ __forceinline__ void attend(uint32_t keys, uint32_t values, int first_key) {
        const uint32_t atom_column_bytes = sm90::kSwizzleBytes << params_.box_shift;
        const int key = first_key + lane_ % sm90::kQuadLanes * 2;  // this lane's first key. The others are 1, 8 and 9 further
        float scores[2][4] = {};
#pragma unroll
        for (int k_step = 0; k_step < kKSteps; ++k_step) {
            uint32_t k[4];
            ptx::load_matrix_x4(k,
                                keys + k_step / kKStepsPerAtom * atom_column_bytes + ldmatrix_offset_(k_step % kKStepsPerAtom));
            ptx::mma_16x8x16<Element>(scores[0], query_[k_step], k[0], k[2]);
            ptx::mma_16x8x16<Element>(scores[1], query_[k_step], k[1], k[3]);
        }
        mask(scores, key);
        softmax(scores);
        const uint32_t probabilities[4] = {
            ptx::pack<Element>(scores[0][0], scores[0][1]), ptx::pack<Element>(scores[0][2], scores[0][3]),
            ptx::pack<Element>(scores[1][0], scores[1][1]), ptx::pack<Element>(scores[1][2], scores[1][3])};
        const uint32_t exists[2] = {pair_mask(key), pair_mask(key + sm90::kMmaN)};
#pragma unroll
        for (int k_step = 0; k_step < kKSteps; ++k_step) {
            uint32_t v[4];
            ptx::load_matrix_x4_transposed(
                v, values + k_step / kKStepsPerAtom * atom_column_bytes + ldmatrix_offset_(k_step % kKStepsPerAtom));
            ptx::mma_16x8x16<Element>(state_.output[2 * k_step], probabilities, v[0] & exists[0], v[1] & exists[1]);
            ptx::mma_16x8x16<Element>(state_.output[2 * k_step + 1], probabilities, v[2] & exists[0], v[3] & exists[1]);
        }
    }

    // Sets scores of keys that a row may not see to -infinity, whatever they were.
    __device__ __forceinline__ void mask(float (&scores)[2][4], int key) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float score = scores[half][i] * params_.score_sign;
                scores[half][i] = key + half * sm90::kMmaN + i % 2 < keys_ - hidden_[i / 2] ? score : sm90::minus_infinity();
            }
        }
    }

    // Values after the last key may be anything, and 0 * NaN is NaN. So they become zero.
    __device__ __forceinline__ uint32_t pair_mask(int key) const {
        return (key < keys_ ? 0x0000FFFFu : 0u) | (key + 1 < keys_ ? 0xFFFF0000u : 0u);
    }

    // Turns scores into exponentials and rescales the earlier sums to the new max.
    __device__ __forceinline__ void softmax(float (&scores)[2][4]) {
        float factor[sm90::kRowsPerLane];
        bool needs_rescale = false;
#pragma unroll
        for (int r = 0; r < sm90::kRowsPerLane; ++r) {
            const float block_max =
                fmaxf(fmaxf(scores[0][2 * r], scores[0][2 * r + 1]), fmaxf(scores[1][2 * r], scores[1][2 * r + 1]));
            const float row_max = fmaxf(state_.row_max[r], sm90::quad_max(block_max));
            const float subtracted_max = finite_max(row_max);
            needs_rescale |= row_max > state_.row_max[r];
            factor[r] = ptx::exp2_approx((state_.row_max[r] - subtracted_max) * params_.scale_log2);
            state_.row_max[r] = row_max;
            state_.row_sum[r] *= factor[r];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float& score = scores[i / 2][2 * r + i % 2];
                score = ptx::exp2_approx((score - subtracted_max) * params_.scale_log2);
                state_.row_sum[r] += score;
            }
        }
        if (!__any_sync(sm90::kFullWarpMask, needs_rescale)) return;
#pragma unroll
        for (auto& output : state_.output) {
#pragma unroll
            for (int i = 0; i < 4; ++i) output[i] *= factor[i / 2];
        }
    }

    const Params& params_;
    SharedStorage<Tuning>& shared_;
    int warp_;
    int lane_;
    sm90::LdmatrixOffset ldmatrix_offset_;
    int keys_ = 0;                    // of the sequence
    int hidden_[sm90::kRowsPerLane];  // how many of the last keys each of this lane's rows does not see
    sm90::RingPosition<kConfig.stages> ring_;
    sm90::RingPosition<kWorkQueueSlots> work_queue_;
    uint32_t query_[kKSteps][4];
    SoftmaxState<kConfig.head_dim> state_;
};

}  // namespace flashcore::decode
