// A consumer warp of an E4M3 cache. fp8.cuh and fp8_merge.cuh have the order of the operands.
#pragma once

#include "flashcore/decode/consumer.cuh"
#include "flashcore/decode/fp8_query.cuh"
#include "flashcore/decode/key_scale_products.cuh"

namespace flashcore::decode {

template <class Tuning>
class Fp8Consumer : public Consumer<Tuning> {
    using Base = Consumer<Tuning>;
    using Base::kConfig, Base::kKSteps;
    using Base::params_, Base::shared_, Base::warp_, Base::lane_, Base::ring_, Base::work_queue_, Base::keys_;

public:
    using Base::Base;

    __device__ __forceinline__ void run() {
        if (params_.rows.count <= kMergeRows) {
            run<1>();
        } else {
            run<2>();
        }
    }

private:
    // Groups of 16 keys that a warp takes at a time. More keys at once hide more latency, and share a max.
    template <int kHalves>
    static constexpr int kPartsOf = kConfig.head_dim == 64 || (kConfig.head_dim == 128 && kHalves == 1) ? 2 : 1;

    static constexpr bool kRegistersAreShort = kConfig.key_scales && kConfig.head_dim >= 128;

    // The scales of a split: of its scores, and of the values of the head of each lane.
    struct Scales {
        float q, k, v;
    };

    template <int kHalves>
    __device__ __forceinline__ void run() {
        for (;;) {
            Fp8Rows<Tuning, kHalves> rows;
            const Split split = this->pop_split();
            if (split.work_tile == kNoWorkTile) return;
            begin(split, rows);
            Fp8State<kConfig.head_dim, kHalves> state;
            attend_split(split, rows, state);
            end(state);
        }
    }

    template <int kHalves>
    __device__ __forceinline__ void end(const Fp8State<kConfig.head_dim, kHalves>& state) const {
        const HeldSplitOf<Tuning>& held = shared_.held[warp_];
        Fp8Merge<Tuning, kHalves>(params_, shared_, held.split, held.fixup, warp_, lane_).run(state);
    }

    __device__ __forceinline__ int tile_row() const { return packed_rows<Tuning>(params_).tile_of(warp_) * kRowTileRows; }

    __device__ __forceinline__ Scales load_scales(const Split& split) const {
        const PackedRows rows = packed_rows<Tuning>(params_);
        const WorkTile work_tile(params_, rows, split);
        const int sequence = work_tile.sequence, head = work_tile.kv_head + rows.head_of(tile_row());
        return {query_type<Tuning>(params_) == DType::kE4m3 ? scale_of(params_.q_scale, sequence, head) : 1.0f,
                scale_of(params_.k_scale, sequence, head),
                lane_ < rows.heads ? scale_of(params_.v_scale, sequence, work_tile.kv_head + lane_) : 1.0f};
    }

    // The scales of the values wait in shared memory: a load at the end would be waited for.
    template <int kHalves>
    __device__ __forceinline__ void begin(const Split& split, Fp8Rows<Tuning, kHalves>& to) {
        const PackedRows rows = packed_rows<Tuning>(params_);
        const FixupInfo fixup = fixup_info(params_.split_policy, shared_.cta_ranges, split);
        if (fixup.split_count > 1 && warp_ == 0 && lane_ == 0) ptx::prefetch_l2(params_.counters + fixup.counter);
        HeldSplitOf<Tuning>& held = shared_.held[warp_];
        __syncwarp();
        if (lane_ == 0) {
            held.split = split;
            held.fixup = fixup;
            held.work_queue = work_queue_;
        }
        const Scales scales = load_scales(split);
        if (lane_ < rows.heads) held.v_scale[lane_] = scales.v;
        __syncwarp();
        const WorkTile work_tile(params_, rows, split);
        to.hidden = 0;
        // Or addresses are kept for the next split, in registers that these kernels lack.
        const int lane = kRegistersAreShort ? __shfl_sync(sm90::kFullWarpMask, lane_, lane_) : lane_;
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            to.fetch(half, params_, rows, work_tile, tile_row(), lane);
            to.convert(half, params_, rows, work_tile.first_row + tile_row(), scales.k * scales.q, lane);
        }
    }

    template <int kHalves>
    __device__ __forceinline__ void attend_split(const Split& split, const Fp8Rows<Tuning, kHalves>& rows,
                                                 Fp8State<kConfig.head_dim, kHalves>& state) {
        const HeldSplitOf<Tuning>& held = shared_.held[warp_];
        constexpr bool kKeepsLast = kConfig.head_dim <= 128;  // at D=256 registers are short
        const int last = split.last;
        keys_ = split.keys;
        KeyScaleRange range;
#pragma unroll 1
        for (int tile = split.first; tile < (kKeepsLast ? last : held.split.last); ++tile) {
            ring_.wait_full(shared_.ring);
            attend_tile(rows, state, tile, range);
            __syncwarp();
            ring_.release(shared_.ring, lane_ == 0);
            advance<used_stages(kConfig)>(ring_);
        }
        if constexpr (kConfig.key_scales) {
            if (params_.v_key_scale.data != nullptr) multiply(state, range.inverse());
        }
        // From here on a max is a power of two's exponent, so that rows with different scales merge alike.
#pragma unroll
        for (int i = 0; i < kHalves * kFp8LaneRows; ++i) {
            float& row_max = state.row_max[i / 2][i % 2];
            if (row_max != sm90::minus_infinity()) row_max *= rows.log2(i / 2, i % 2);
        }
        work_queue_ = held.work_queue;
    }

    template <int kHalves>
    __device__ __forceinline__ void attend_tile(const Fp8Rows<Tuning, kHalves>& rows, Fp8State<kConfig.head_dim, kHalves>& state,
                                                int tile, KeyScaleRange& range) {
        constexpr int kParts = kPartsOf<kHalves>;
        constexpr int kKeys = kParts * kMmaKeys;
        const PackedRows packed = packed_rows<Tuning>(params_);
        const int tile_shift = packed.tile_shift;
        const int groups_per_tile = (1 << params_.split_policy.tile_shift) / kKeys;
        const int first_key = tile << params_.split_policy.tile_shift;
        const int groups = min_int(divide_up(keys_ - first_key, kKeys), groups_per_tile);
        const int head = packed.heads == 1 ? 0 : packed.tile_of(warp_);
        const int warps_per_row_tile = kConfig.consumer_warps >> tile_shift;
#pragma unroll 1
        for (int group = ((warp_ >> tile_shift) - tile * groups_per_tile) & (warps_per_row_tile - 1); group < groups;
             group += warps_per_row_tile) {
            const int key = group * kKeys;
            uint32_t offsets[kParts];
#pragma unroll
            for (int part = 0; part < kParts; ++part) offsets[part] = this->tile_offset(packed, head, key + part * kMmaKeys);
            const int scale = (head << params_.split_policy.tile_shift) + key;  // of the group, if keys have their own
            attend_group(rows, state, offsets, first_key + key, scale, range);
        }
    }

    // Offset of 32 columns in a box.
    __device__ __forceinline__ uint32_t offset_of(int step) const {
        constexpr int kStepsPerAtom = Base::kRowBytes / 32;
        return step / kStepsPerAtom * (sm90::kSwizzleBytes << this->box_shift()) + this->ldmatrix_offset_(step % kStepsPerAtom);
    }

    // Attends to a group of keys of one head, in parts of 16 that may be in different boxes.
    template <int kHalves, int kParts>
    __device__ __forceinline__ void attend_group(const Fp8Rows<Tuning, kHalves>& rows, Fp8State<kConfig.head_dim, kHalves>& state,
                                                 const uint32_t (&offsets)[kParts], int first_key, int scale, KeyScaleRange& range) {
        float scores[kParts][kHalves][4] = {};
#pragma unroll
        for (int step = 0; step < kKSteps / 2; ++step) {
#pragma unroll
            for (int part = 0; part < kParts; ++part) {
                uint32_t k[4];
                ptx::load_matrix_x4(k, ptx::shared_address(shared_.k[ring_.slot]) + offsets[part] + offset_of(step));
#pragma unroll
                for (int unit = 0; unit < 2; ++unit) {
                    const uint32_t keys[4] = {fp8_pair_to_fp16(k[2 * unit]), fp8_pair_to_fp16(k[2 * unit + 1]),
                                              fp8_high_pair_to_fp16(k[2 * unit]), fp8_high_pair_to_fp16(k[2 * unit + 1])};
#pragma unroll
                    for (int half = 0; half < kHalves; ++half) {
                        const uint32_t(&query)[2] = rows.query[half][2 * step + unit];
                        ptx::mma_16x8x16<__half>(scores[part][half], keys, query[0], query[1]);
                    }
                }
            }
        }
        if constexpr (kConfig.key_scales) {
            if (params_.k_key_scale.data != nullptr) {
                multiply(scores, LaneScales<kParts>(k_scales_of(shared_, ring_.slot), scale, lane_));
            }
        }
        mask(rows, scores, first_key + lane_ / sm90::kQuadLanes);
        softmax(rows, state, scores);
        if constexpr (kConfig.key_scales) {
            if (params_.v_key_scale.data != nullptr) {
                scale_probabilities(state, scores, LaneScales<kParts>(v_scales_of(shared_, ring_.slot), scale, lane_), range);
            }
        }
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            attend_to_values(state, scores[part], offsets[part], first_key + part * kMmaKeys + lane_ % sm90::kQuadLanes * 2);
        }
    }

    // A transposed unit holds the columns 2n and 2n + 1 of two keys in each lane. The even columns are the first eight rows of an
    // mma, the odd ones the others.
    template <int kHalves>
    __device__ __forceinline__ void attend_to_values(Fp8State<kConfig.head_dim, kHalves>& state, const float (&scores)[kHalves][4],
                                                     uint32_t offset, int key) {
        constexpr uint32_t kEven = 0x6420, kOdd = 0x7531;  // bytes of two words
        uint32_t probabilities[kHalves][2];
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            probabilities[half][0] = ptx::transpose_matrix(ptx::pack<__half>(scores[half][0], scores[half][1]));
            probabilities[half][1] = ptx::transpose_matrix(ptx::pack<__half>(scores[half][2], scores[half][3]));
        }
        const uint32_t exists[2] = {this->pair_mask(key), this->pair_mask(key + sm90::kMmaN)};
#pragma unroll
        for (int step = 0; step < kKSteps / 2; ++step) {
            uint32_t v[4];
            ptx::load_matrix_x4_transposed(v, ptx::shared_address(shared_.v[ring_.slot]) + offset + offset_of(step));
#pragma unroll
            for (int unit = 0; unit < 2; ++unit) {
                const uint32_t first = v[unit * 2] & exists[0], second = v[unit * 2 + 1] & exists[1];
                const uint32_t even = __byte_perm(first, second, kEven), odd = __byte_perm(first, second, kOdd);
                const uint32_t values[4] = {fp8_pair_to_fp16(even), fp8_pair_to_fp16(odd), fp8_high_pair_to_fp16(even),
                                            fp8_high_pair_to_fp16(odd)};
#pragma unroll
                for (int half = 0; half < kHalves; ++half) {
                    ptx::mma_16x8x16<__half>(state.output[half][2 * step + unit], values, probabilities[half][0],
                                             probabilities[half][1]);
                }
            }
        }
    }

    // Sets scores of keys that a row may not see to -infinity, whatever they were.
    template <int kHalves, int kParts>
    __device__ __forceinline__ void mask(const Fp8Rows<Tuning, kHalves>& rows, float (&scores)[kParts][kHalves][4], int key) const {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
#pragma unroll
            for (int i = 0; i < 4 * kHalves; ++i) {
                const bool visible = key + part * kMmaKeys + i % 4 / 2 * sm90::kMmaN < keys_ - rows.hidden_of(i / 4, i % 2);
                float& score = scores[part][i / 4][i % 4];
                score = visible ? score : sm90::minus_infinity();
            }
        }
    }

    // Turns scores into exponentials and rescales the earlier sums to the new max.
    template <int kHalves, int kParts>
    __device__ __forceinline__ void softmax(const Fp8Rows<Tuning, kHalves>& rows, Fp8State<kConfig.head_dim, kHalves>& state,
                                            float (&scores)[kParts][kHalves][4]) {
        float factor[kHalves][kFp8LaneRows];
        bool needs_rescale = false;
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
#pragma unroll
            for (int r = 0; r < kFp8LaneRows; ++r) {
                float block_max = sm90::minus_infinity();
#pragma unroll
                for (int part = 0; part < kParts; ++part) {
                    block_max = fmaxf(block_max, fmaxf(scores[part][half][r], scores[part][half][2 + r]));
                }
                float& state_max = state.row_max[half][r];
                const float row_max = fmaxf(state_max, column_max(block_max));
                const float subtracted_max = finite_max(row_max);
                needs_rescale |= row_max > state_max;
                factor[half][r] = ptx::exp2_approx((state_max - subtracted_max) * rows.log2(half, r));
                state_max = row_max;
                float& sum = state.row_sum[half][r];
                sum *= factor[half][r];
#pragma unroll
                for (int i = 0; i < 2 * kParts; ++i) {
                    float& score = scores[i / 2][half][i % 2 * 2 + r];
                    score = ptx::exp2_approx((score - subtracted_max) * rows.log2(half, r));
                    sum += score;
                }
            }
        }
        if (!__any_sync(sm90::kFullWarpMask, needs_rescale)) return;
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
#pragma unroll
            for (auto& unit : state.output[half]) {
#pragma unroll
                for (int i = 0; i < 4; ++i) unit[i] *= factor[half][i % 2];
            }
        }
    }
};

}  // namespace flashcore::decode
