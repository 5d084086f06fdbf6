// The warps that copy the scales of single keys. Each copies those of every third tile, next to the warp that loads the tiles.
#pragma once

#include "flashcore/decode/pages.cuh"
#include "flashcore/decode/producer.cuh"
#include "flashcore/ptx/cp_async.cuh"

namespace flashcore::decode {

template <class Tuning>
class KeyScaleProducer : public Producer<Tuning> {
    using Base = Producer<Tuning>;
    using Base::kConfig, Base::params_, Base::shared_, Base::lane_, Base::ring_;

public:
    // Shares the work of a producer. `warp` counts these warps.
    __device__ __forceinline__ KeyScaleProducer(const Base& producer, int warp)
        : Base(producer), pages_(params_.cache, lane_), tiles_to_next_(warp) {
        ring_.slot = warp;
        const PackedRows rows = packed_rows<Tuning>(params_);
        const int head_shift = rows.heads == 1 ? 0 : rows.tile_shift;
        head_ = lane_ & (rows.heads - 1);
#pragma unroll
        for (int i = 0; i < kLaneKeys; ++i) {
            key_[i] = (lane_ + i * sm90::kWarpThreads) >> head_shift;
            place_[i] = 4 * ((head_ << params_.split_policy.tile_shift) + key_scale_place(key_[i]));
        }
    }

    __device__ __forceinline__ void run() {
        typename Base::SplitsOf splits(params_.split_policy, this->cta_ranges_, static_cast<int>(blockIdx.x), this->begin_,
                                       sequence_keys<Tuning>(params_));
        Split split;
        while (splits.next(split)) copy(split);
        ptx::cp_async_wait_all();
    }

private:
    static constexpr int kLaneKeys = kConfig.tile_keys / sm90::kWarpThreads;  // of a tile, each with its head
    static_assert(kKeyScaleWarps <= used_stages(kConfig), "a warp that waits for a slot must not be more than a turn of the ring ahead");

    __device__ __forceinline__ void copy(const Split& split) {
        pages_.enter(split.sequence);
        const int64_t head = kv_head_of(params_, packed_rows<Tuning>(params_), split.work_tile) + head_;
        const float* const k = params_.k_key_scale.data + head * params_.k_key_scale.head_stride;
        const float* const v = params_.v_key_scale.data + head * params_.v_key_scale.head_stride;
        int tile = split.first + tiles_to_next_;
#pragma unroll 1
        for (; tile < split.last; tile += kKeyScaleWarps) copy(split, tile, k, v);
        tiles_to_next_ = tile - split.last;
    }

    // Copies the scales of a tile's keys, in the order of key_scales.cuh. `k` and `v` are those of this lane's head in the first page.
    // The lanes of a key's heads are neighbours, as their scales mostly are. Keys past the end have a scale of 0, whatever their values
    // are.
    __device__ __forceinline__ void copy(const Split& split, int tile, const float* k, const float* v) {
        const int first = tile << params_.split_policy.tile_shift;
        const int keys = min_int(split.keys - first, 1 << params_.split_policy.tile_shift);
        if (keys > 0) pages_.hold(first);  // a page table may be empty
        int64_t k_offset[kLaneKeys], v_offset[kLaneKeys];
#pragma unroll
        for (int i = 0; i < kLaneKeys; ++i) {
            const int key = first + max_int(min_int(key_[i], keys - 1), 0);
            const int page = pages_.page(key), key_in_page = pages_.key_in_page(key);
            k_offset[i] = offset_of(params_.k_key_scale, page, key_in_page);
            v_offset[i] = offset_of(params_.v_key_scale, page, key_in_page);
        }
        ring_.wait_empty(shared_.ring);
        if (params_.k_key_scale.data != nullptr) copy(k_scales_of(shared_, ring_.slot), k, k_offset, keys);
        if (params_.v_key_scale.data != nullptr) copy(v_scales_of(shared_, ring_.slot), v, v_offset, keys);
        ptx::cp_async_arrive_noinc(&shared_.ring.full[ring_.slot]);
        ring_.slot += kKeyScaleWarps;
        if (ring_.slot < used_stages(kConfig)) return;
        ring_.slot -= used_stages(kConfig);
        ring_.parity ^= 1;
    }

    __device__ __forceinline__ void copy(float* to, const float* from, const int64_t (&offset)[kLaneKeys], int keys) const {
        const uint32_t scales = ptx::shared_address(to);
#pragma unroll
        for (int i = 0; i < kLaneKeys; ++i) ptx::cp_async_4(scales + place_[i], from + offset[i], key_[i] < keys);
    }

    __device__ __forceinline__ static int64_t offset_of(const KeyScale& scale, int page, int key_in_page) {
        return static_cast<uint32_t>(page) * scale.page_stride + static_cast<uint32_t>(key_in_page) * scale.key_stride;
    }

    PagesAhead pages_;
    int tiles_to_next_;     // from the next one of the CTA's to the next of this warp's
    int head_;              // of this lane's keys, in the work tile
    int key_[kLaneKeys];    // in the tile
    uint32_t place_[kLaneKeys];
};

}  // namespace flashcore::decode
