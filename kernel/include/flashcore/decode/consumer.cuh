// A consumer warp attends from 16 query rows to its part of the keys of a split, 16 or 32 keys at a time.
#pragma once

#include "flashcore/core/sink.cuh"
#include "flashcore/decode/fp8.cuh"
#include "flashcore/decode/merge.cuh"
#include "flashcore/decode/work_list.cuh"
#include "flashcore/ptx/math.cuh"
#include "flashcore/ptx/memory.cuh"
#include "flashcore/ptx/mma.cuh"

namespace flashcore::decode {

// The positions of a lane's rows, counted like keys from the first tile of the window.
struct RowWindows {
    int position[sm90::kRowsPerLane];
};
struct NoRowWindows {};

template <class Tuning>
class Consumer {
public:
    static constexpr Config kConfig = Tuning::config;
    using Element = typename Merge<Tuning>::Element;
    using Traits = sm90::ElementTraits<Element>;
    static constexpr int kRowBytes = min_int(key_bytes(kConfig), sm90::kSwizzleBytes);  // of a key in a column of swizzle atoms
    using Offset = std::conditional_t<kConfig.fp8_cache, Fp8LdmatrixOffset<kRowBytes>, sm90::LdmatrixOffset>;
    // With several row tiles few warps share the keys, so that each must have more of them in flight. Not measured with windows.
    static constexpr int kWideParts = kConfig.ragged && !kConfig.local && kConfig.head_dim <= 128 ? 2 : 1;
    static constexpr int kKSteps = kConfig.head_dim / Traits::kMmaK;
    static constexpr int kKStepsPerAtom = Traits::kSwizzleAtomColumns / Traits::kMmaK;

    __device__ __forceinline__ Consumer(const ParamsOf<Tuning>& params, SharedStorage<Tuning>& shared, int warp, int lane)
        : params_(params), shared_(shared), warp_(warp), lane_(lane), ldmatrix_offset_(lane) {}

    // A split is known before its first tile arrives, so its query loads at the same time.
    __device__ __forceinline__ void run() {
        for (SplitOf<Tuning> split = pop_split(); split.work_tile != kNoWorkTile; split = pop_split()) {
            load_query(split);
            const FixupInfo fixup = fixup_info<kConfig.ragged>(params_.split_policy, shared_.cta_ranges, split);
            if (fixup.split_count > 1 && warp_ == 0 && lane_ == 0) ptx::prefetch_l2(params_.counters + fixup.counter);
            if constexpr (kConfig.local && !holds_window(kConfig)) split_window_ = find_window(split);
            if constexpr (holds_split(kConfig)) {
                hold(split, fixup);
                attend(split);
                const HeldSplitOf<Tuning> held = shared_.held[warp_];
                Merge<Tuning>(params_, shared_, held.split, held.fixup, warp_, lane_).run(state_);
            } else {
                attend(split);
                Merge<Tuning>(params_, shared_, split, fixup, warp_, lane_).run(state_);
            }
        }
    }

protected:
    // Waits for the next split. Only the lane that releases the slot reads it and gives it to the others.
    __device__ __forceinline__ SplitOf<Tuning> pop_split() {
        work_queue_.wait_full(shared_.work_queue_ring);
        const SplitOf<Tuning> split = from_first_lane(shared_.work_queue[work_queue_.slot]);
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

    // In query_rows.cuh.
    __device__ __forceinline__ void load_query(const SplitOf<Tuning>& split);
    __device__ __forceinline__ void load_row(const uint32_t* row, bool exists, int r);
    template <bool kAll>
    __device__ __forceinline__ void load_words(const uint32_t* row, bool exists, int r);
    // In row_windows.cuh.
    __device__ __forceinline__ void hold(const SplitOf<Tuning>& split, const FixupInfo& fixup);
    __device__ __forceinline__ SplitWindow find_window(const SplitOf<Tuning>& split) const;
    __device__ __forceinline__ KeyRange range_of(int skipped, int keys, int position) const;
    __device__ __forceinline__ void place_row(int position, int r);
    __device__ __forceinline__ int position_of(int r) const;
    __device__ __forceinline__ SplitWindow split_window() const;
    template <int kTiles>
    __device__ __forceinline__ void mask_window(float (&scores)[kTiles][4], int key) const;
    __device__ __forceinline__ float limited_score(float score) const;

    __device__ __forceinline__ void attend(const SplitOf<Tuning>& split) {
        keys_ = split.keys;
        state_ = {};
#pragma unroll 1
        for (int tile = split.first; tile < split.last; ++tile) {
            ring_.wait_full(shared_.ring);
            attend(split, tile);
            __syncwarp();
            ring_.release(shared_.ring, lane_ == 0);
            ring_.advance();
        }
    }

    // The groups of a tile are divided among the warps of a row tile. The choice depends only on the position in the
    // sequence, so the order of additions does too.
    __device__ __forceinline__ void attend(const SplitOf<Tuning>& split, int tile) {
        const PackedRows rows = packed_rows<Tuning>(params_, split);
        const int tile_shift = kConfig.ragged ? rows.tile_shift : params_.rows.tile_shift;
        if constexpr (kConfig.ragged) {
            if (rows.heads == 1 && rows.tile_of(warp_) * kRowTileRows >= rows.count) return;  // a row tile of no rows
        }
        if constexpr (kWideParts > 1) {
            if (rows.heads == 1 && tile_shift > 0) {
                attend_groups<kWideParts>(rows, tile_shift, tile);
                return;
            }
        }
        attend_groups<1>(rows, tile_shift, tile);
    }

    template <int kParts>
    __device__ __forceinline__ void attend_groups(const PackedRows& rows, int tile_shift, int tile) {
        constexpr int kKeys = kParts * kMmaKeys;
        const int groups_per_tile = (1 << params_.split_policy.tile_shift) / kKeys;
        const int first_key = tile << params_.split_policy.tile_shift;
        const int groups = min_int(divide_up(keys_ - first_key, kKeys), groups_per_tile);
        const int head = rows.heads == 1 ? 0 : rows.tile_of(warp_);
        const int warps_per_row_tile = kConfig.consumer_warps >> tile_shift;
#pragma unroll 1
        for (int group = ((warp_ >> tile_shift) - tile * groups_per_tile) & (warps_per_row_tile - 1); group < groups;
             group += warps_per_row_tile) {
            const int key = group * kKeys;
            uint32_t offsets[kParts];
#pragma unroll
            for (int part = 0; part < kParts; ++part) offsets[part] = tile_offset(rows, head, key + part * kMmaKeys);
            attend_keys(offsets, first_key + key);
        }
    }

    // Log2 of the keys of a box. Keys that are copied one by one have one box per tile.
    __device__ __forceinline__ int box_shift() const {
        if constexpr (kConfig.gathered && max_heads(kConfig) == 1) return shift_of(kConfig.tile_keys);
        return params_.box_shift;
    }

    // Byte offset of a key of a tile. In a box, the columns of swizzle atoms of a head follow each other.
    __device__ __forceinline__ uint32_t tile_offset(const PackedRows& rows, int head, int key) const {
        const int box = key >> box_shift();
        const int box_key = key - (box << box_shift());
        return (((box * rows.heads + head) << box_shift()) * kConfig.head_dim) * cache_bytes(kConfig) + box_key * kRowBytes;
    }

    // Attends to a group of keys of one head, in parts of 16 that may be in different boxes and share a max.
    template <int kParts>
    __device__ __forceinline__ void attend_keys(const uint32_t (&offsets)[kParts], int first_key) {
        const uint32_t atom_column_bytes = sm90::kSwizzleBytes << box_shift();
        const uint32_t keys = ptx::shared_address(shared_.k[ring_.slot]), values = ptx::shared_address(shared_.v[ring_.slot]);
        const int key = first_key + lane_ % sm90::kQuadLanes * 2;  // this lane's first key. The others are 1, 8 and 9 further
        float scores[2 * kParts][4] = {};
#pragma unroll
        for (int k_step = 0; k_step < kKSteps; ++k_step) {
#pragma unroll
            for (int part = 0; part < kParts; ++part) {
                uint32_t k[4];
                ptx::load_matrix_x4(k, keys + offsets[part] + k_step / kKStepsPerAtom * atom_column_bytes +
                                           ldmatrix_offset_(k_step % kKStepsPerAtom));
                ptx::mma_16x8x16<Element>(scores[2 * part], query_[k_step], k[0], k[2]);
                ptx::mma_16x8x16<Element>(scores[2 * part + 1], query_[k_step], k[1], k[3]);
            }
        }
        mask(scores, key);
        softmax(scores);
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            uint32_t probabilities[4];
            pack_probabilities(probabilities, scores, 2 * part);
            const uint32_t exists[2] = {pair_mask(key + part * kMmaKeys), pair_mask(key + part * kMmaKeys + sm90::kMmaN)};
#pragma unroll
            for (int k_step = 0; k_step < kKSteps; ++k_step) {
                uint32_t v[4];
                ptx::load_matrix_x4_transposed(v, values + offsets[part] + k_step / kKStepsPerAtom * atom_column_bytes +
                                                      ldmatrix_offset_(k_step % kKStepsPerAtom));
                ptx::mma_16x8x16<Element>(state_.output[2 * k_step], probabilities, v[0] & exists[0], v[1] & exists[1]);
                ptx::mma_16x8x16<Element>(state_.output[2 * k_step + 1], probabilities, v[2] & exists[0], v[3] & exists[1]);
            }
        }
    }

    template <class Scores>
    __device__ __forceinline__ static void pack_probabilities(uint32_t (&probabilities)[4], const Scores& scores, int first = 0) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            probabilities[i] = ptx::pack<Element>(scores[first + i / 2][i % 2 * 2], scores[first + i / 2][i % 2 * 2 + 1]);
        }
    }

    // Sets scores of keys that a row may not see to -infinity, whatever they were.
    template <int kTiles>
    __device__ __forceinline__ void mask(float (&scores)[kTiles][4], int key) const {
        if constexpr (kConfig.local) {
            mask_window(scores, key);
        } else {
#pragma unroll
            for (int half = 0; half < kTiles; ++half) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float score = scores[half][i] * params_.score_sign;
                    const bool visible = key + half * sm90::kMmaN + i % 2 < keys_ - hidden_[i / 2];
                    scores[half][i] = visible ? score : sm90::minus_infinity();
                }
            }
        }
    }

    // Values after the last key may be anything, and 0 * NaN is NaN. So they become zero. So do those before every window: a
    // server may have given their page to another sequence.
    __device__ __forceinline__ uint32_t pair_mask(int key) const {
        if constexpr (kConfig.local) {
            const int first = split_window().first_of_all;
            return (first <= key && key < keys_ ? 0x0000FFFFu : 0u) | (first <= key + 1 && key + 1 < keys_ ? 0xFFFF0000u : 0u);
        }
        return (key < keys_ ? 0x0000FFFFu : 0u) | (key + 1 < keys_ ? 0xFFFF0000u : 0u);
    }

    // Turns scores into exponentials and rescales the earlier sums to the new max.
    template <int kTiles>
    __device__ __forceinline__ void softmax(float (&scores)[kTiles][4]) {
        float factor[sm90::kRowsPerLane];
        bool needs_rescale = false;
#pragma unroll
        for (int r = 0; r < sm90::kRowsPerLane; ++r) {
            float block_max =
                fmaxf(fmaxf(scores[0][2 * r], scores[0][2 * r + 1]), fmaxf(scores[1][2 * r], scores[1][2 * r + 1]));
#pragma unroll
            for (int tile = 2; tile < kTiles; ++tile) {
                block_max = fmaxf(block_max, fmaxf(scores[tile][2 * r], scores[tile][2 * r + 1]));
            }
            const float row_max = fmaxf(state_.row_max[r], sm90::quad_max(block_max));
            const float subtracted_max = finite_max(row_max);
            needs_rescale |= row_max > state_.row_max[r];
            factor[r] = ptx::exp2_approx((state_.row_max[r] - subtracted_max) * params_.scale_log2);
            state_.row_max[r] = row_max;
            state_.row_sum[r] *= factor[r];
#pragma unroll
            for (int i = 0; i < 2 * kTiles; ++i) {
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

    const ParamsOf<Tuning>& params_;
    SharedStorage<Tuning>& shared_;
    int warp_;
    int lane_;
    Offset ldmatrix_offset_;
    int keys_ = 0;                    // of the sequence
    int hidden_[sm90::kRowsPerLane];  // how many of the last keys each of this lane's rows does not see
    sm90::RingPosition<kConfig.stages> ring_;
    sm90::RingPosition<kWorkQueueSlots> work_queue_;
    uint32_t query_[kKSteps][4];
    [[no_unique_address]] std::conditional_t<kConfig.local && !holds_window(kConfig), RowWindows, NoRowWindows> window_;
    [[no_unique_address]] std::conditional_t<kConfig.local && !holds_window(kConfig), SplitWindow, NoWindow> split_window_;
    SoftmaxState<kConfig.head_dim> state_;
};

}  // namespace flashcore::decode

#include "flashcore/decode/query_rows.cuh"
#include "flashcore/decode/row_windows.cuh"
