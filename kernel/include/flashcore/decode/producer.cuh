// The producer: one warp that appends new keys to the cache and keeps the ring of tiles full.
#pragma once

#include "flashcore/decode/fp8.cuh"
#include "flashcore/decode/key_scales.cuh"
#include "flashcore/decode/packed_rows.cuh"
#include "flashcore/decode/pages.cuh"
#include "flashcore/decode/params.h"
#include "flashcore/decode/segments.h"
#include "flashcore/decode/shared_storage.cuh"
#include "flashcore/decode/work_list.cuh"
#include "flashcore/ptx/memory.cuh"

namespace flashcore::decode {

struct WindowStart {
    int skipped;  // keys of the sequence before the first tile of its window
};
template <class Tuning>
class Producer {
public:
    static constexpr Config kConfig = Tuning::config;
    using SplitsOf = std::conditional_t<kConfig.deterministic, SegmentIterator<SequenceKeysOf<Tuning>>,
                                        SplitIterator<SequenceKeysOf<Tuning>, kConfig.ragged>>;
    static constexpr int kColumns = kConfig.warpgroup ? key_bytes(kConfig) / sm90::kSwizzleBytes : 1;  // of swizzle atoms, each in a box
    static constexpr int kAtomColumns = atom_columns(kConfig), kAtomElements = atom_elements(kConfig);

    __device__ __forceinline__ Producer(const ParamsOf<Tuning>& params, SharedStorage<Tuning>& shared, int lane)
        : params_(params), shared_(shared), lane_(lane), pages_(params.cache, lane) {}

    // Finds this CTA's range of the work list. Consumers may read it after the __syncthreads that follows.
    __device__ __forceinline__ void find_cta_range(bool sends = true) {
        const WorkList<Tuning> work_list(params_, params_.split_policy, lane_);
        cta_ranges_ = EvenPartition(params_.split_policy.work_tiles * work_list.length(), static_cast<int>(gridDim.x));
        if (sends && lane_ == 0) shared_.cta_ranges = cta_ranges_;
        const int begin = cta_ranges_.begin(static_cast<int>(blockIdx.x));
        if (begin < cta_ranges_.begin(static_cast<int>(blockIdx.x) + 1)) begin_ = work_list.find(begin);
    }

    __device__ __forceinline__ void run() {
        SplitsOf splits(
            params_.split_policy, cta_ranges_, static_cast<int>(blockIdx.x), begin_, sequence_keys<Tuning>(params_));
        SplitOf<Tuning> split;
        for (bool first = true; splits.next(split); first = false) {
            if constexpr (kConfig.ragged) add_queries(split);
            if (!first) prefetch_query(split);
            load(split);
        }
        split.work_tile = kNoWorkTile;
        push_split(split);
    }

protected:
    __device__ __forceinline__ void add_queries(RaggedSplit& split) const {
        const SequenceRange range = sequence_range(params_.queries, split.sequence);
        const PackedRows rows = packed_rows<Tuning>(params_);
        split.first_query = range.end - range.length;
        const int tile_shift = kConfig.warpgroup ? kWarpgroupTileShift : rows.tile_shift_for(range.length);
        split.shape = tile_shift << kQueryBits | range.length;
    }

    // Consumers get a split when its first copies are in flight.
    __device__ __forceinline__ void push_split(const SplitOf<Tuning>& split) {
        work_queue_.wait_empty(shared_.work_queue_ring);
        __syncwarp();  // consumers may empty the slot before a late lane has seen it empty
        if (lane_ == 0) {
            shared_.work_queue[work_queue_.slot] = split;
            work_queue_.arrive_and_expect_tx(shared_.work_queue_ring, 0);
        }
        __syncwarp();
        work_queue_.advance();
    }

    // A busy memory system answers late. So the query of a later split is prefetched. The first split uses its query at once, so
    // a prefetch would not help.
    __device__ __forceinline__ void prefetch_query(const SplitOf<Tuning>& split) const {
        constexpr int kCacheLineBytes = 128;
        const int element_bytes = bytes_of(query_type<Tuning>(params_));
        const int cache_lines = divide_up(kConfig.head_dim * element_bytes, kCacheLineBytes);
        const PackedRows rows = packed_rows<Tuning>(params_, split);
        const WorkTile work_tile(params_, rows, split);
        if constexpr (kConfig.fp8_cache) prefetch_scales(rows, work_tile);
#pragma unroll 1
        for (int i = lane_; i < rows.per_work_tile * cache_lines; i += sm90::kWarpThreads) {
            const int row = work_tile.first_row + i / cache_lines;
            const int offset = i % cache_lines * kCacheLineBytes;
            if (!rows.exists(row) || offset >= params_.head_dim * element_bytes) continue;
            ptx::prefetch_l2(query_row(params_, rows, work_tile, row, element_bytes) + offset);
        }
    }

    __device__ __forceinline__ void prefetch_scales(const PackedRows& rows, const WorkTile& work_tile) const {
        if (lane_ >= rows.heads) return;
        const int head = work_tile.kv_head + lane_;
        for (const Scale* scale : {&params_.k_scale, &params_.v_scale, &params_.q_scale}) {
            if (scale->data != nullptr) ptx::prefetch_l2(scale_address(*scale, work_tile.sequence, head));
        }
    }

    __device__ __forceinline__ void load(const SplitOf<Tuning>& split) {
        pages_.enter(split.sequence);
        if constexpr (kConfig.local) enter_window(split);
        kv_head_ = kv_head_of(params_, packed_rows<Tuning>(params_), split.work_tile);
        if (!kConfig.ragged && params_.cache.new_keys > 0) append(split);
#pragma unroll 1
        for (int tile = split.first; tile < split.last; ++tile) {
            load(split, tile);
            if (tile == split.first) push_split(split);
        }
    }

    // Finds where the window of a split's sequence begins, and counts the tiles that follow.
    __device__ __forceinline__ void enter_window(const SplitOf<Tuning>& split, bool counts = true) {
        const int keys = SequenceKeys{&params_.cache}(split.sequence);
        window_.skipped = keys - split.keys;
        if (params_.local.loaded_tiles != nullptr && counts && lane_ == 0) {
            atomicAdd(params_.local.loaded_tiles, static_cast<unsigned>(split.last - split.first));
        }
    }

    // The sequence's keys, also those before the window.
    __device__ __forceinline__ int all_keys(const Split& split) const {
        if constexpr (kConfig.local) return window_.skipped + split.keys;
        return split.keys;
    }

    __device__ __forceinline__ int key_of_tile(int tile) const {
        if constexpr (kConfig.local) return window_.skipped + (tile << params_.split_policy.tile_shift);
        return tile << params_.split_policy.tile_shift;
    }

    // The first split also appends the new keys before the window.
    __device__ __forceinline__ int first_new_key(const Split& split) const {
        if constexpr (kConfig.local) {
            if (split.first == 0) return 0;
        }
        return key_of_tile(split.first);
    }

    // One TMA copy for the keys and one for the values of each box. A box is a tile, or a page if that is smaller. Boxes without
    // keys are not loaded, because their scores are masked.
    __device__ __forceinline__ void load(const Split& split, int tile) {
        const int first = tile << params_.split_policy.tile_shift;
        const int keys = max_int(min_int(split.keys - first, 1 << params_.split_policy.tile_shift), 0);
        const int boxes = (keys + (1 << params_.box_shift) - 1) >> params_.box_shift;
        const int key = key_of_tile(tile) + (min_int(lane_ / kColumns, max_int(boxes - 1, 0)) << params_.box_shift);  // of this lane's box
        const int slot = pages_.slot(key);
        if (boxes > 0) pages_.hold(slot);
        const int page = pages_.page(slot);
        const uint32_t box_bytes = (packed_rows<Tuning>(params_).heads * key_bytes(kConfig)) << params_.box_shift;
        const int stage = ring_.slot;
        ring_.wait_empty(shared_.ring);
        if (lane_ == 0) ring_.arrive_and_expect_tx(shared_.ring, 2 * boxes * box_bytes);
        __syncwarp();
        if constexpr (kConfig.warpgroup) {
            load_columns(boxes, page, pages_.key_in_page(key, slot));
            ring_.advance();
            return;
        }
        if (lane_ < boxes) {
            uint64_t* const full = &shared_.ring.full[stage];
            const uint32_t offset = lane_ * box_bytes;
            const int key_in_page = pages_.key_in_page(key, slot);
            const int columns = ends_inside_column(kAtomColumns, kAtomElements, params_.head_dim) ? kAtomColumns : 1;
#pragma unroll 1
            for (int column = 0; column < columns; ++column) {
                const uint32_t place = offset + ((column * sm90::kSwizzleBytes) << params_.box_shift);
                const int first = column * kAtomElements;
                ptx::tma_load_5d(shared_.k[stage] + place, &params_.k, full, first, key_in_page, 0, kv_head_, page);
                ptx::tma_load_5d(shared_.v[stage] + place, &params_.v, full, first, key_in_page, 0, kv_head_, page);
            }
        }
        advance<used_stages(kConfig)>(ring_);
    }

    // A box is one column of swizzle atoms, so that wgmma finds all keys of a column below each other.
    __device__ __forceinline__ void load_columns(int boxes, int page, int key_in_page) {
        if (lane_ >= boxes * kColumns) return;
        const int column = lane_ % kColumns;
        const uint32_t offset = column * sm90::atom_column_bytes(kConfig.tile_keys) +
                                ((lane_ / kColumns) << params_.box_shift) * sm90::kSwizzleBytes;
        uint64_t* const full = &shared_.ring.full[ring_.slot];
        const int first = column * kAtomElements;
        ptx::tma_load_5d(shared_.k[ring_.slot] + offset, &params_.k, full, first, key_in_page, 0, kv_head_, page);
        ptx::tma_load_5d(shared_.v[ring_.slot] + offset, &params_.v, full, first, key_in_page, 0, kv_head_, page);
    }

    // Writes the new keys and values of this split into the cache, where TMA then reads them like any others. No other work tile
    // depends on this: those with the same KV head write the same values themselves.
    __device__ __forceinline__ void append(const Split& split) {
        constexpr int kUnitElements = 8;
        constexpr int kUnits = kConfig.head_dim / kUnitElements;
        const Cache& cache = params_.cache;
        // New keys are dropped only where the cache is full. Only then the length is read again.
        const bool all_fit = cache.lengths == nullptr || all_keys(split) < cache.capacity;
        const int old =
            all_fit ? all_keys(split) - cache.new_keys : keys_before(__ldg(cache.lengths + split.sequence), cache.capacity);
        const int first = max_int(first_new_key(split), old);
        const int last = min_int(key_of_tile(split.last), all_keys(split));
        if (first >= last) return;
        const int units = packed_rows<Tuning>(params_).heads * kUnits;  // per key
#pragma unroll 1
        for (int i = lane_; i < (last - first) * units; i += sm90::kWarpThreads) {
            const int key = first + divide(i, units);
            const int unit = i - (key - first) * units;
            const int head = kv_head_ + unit / kUnits;
            const int column = unit % kUnits * kUnitElements;
            if (column >= params_.head_dim) continue;
            const int slot = pages_.slot(key);
            const int page = pages_.read(slot);
            const int key_in_page = pages_.key_in_page(key, slot);
            if constexpr (kConfig.fp8_cache) {
                float k_scale = scale_of(params_.k_scale, split.sequence, head), v_scale = scale_of(params_.v_scale, split.sequence, head);
                if constexpr (kConfig.key_scales) {
                    k_scale *= key_scale_of(params_.k_key_scale, page, key_in_page, head);
                    v_scale *= key_scale_of(params_.v_key_scale, page, key_in_page, head);
                }
                const uint2 k = quantised(params_.k_new, k_scale, split.sequence, key - old, head, column);
                const uint2 v = quantised(params_.v_new, v_scale, split.sequence, key - old, head, column);
                *at<uint2, uint8_t>(params_.k_cache, page, key_in_page, head, column) = k;
                *at<uint2, uint8_t>(params_.v_cache, page, key_in_page, head, column) = v;
            } else {
                const uint4 k = *at<const uint4>(params_.k_new, split.sequence, key - old, head, column);
                const uint4 v = *at<const uint4>(params_.v_new, split.sequence, key - old, head, column);
                *at<uint4>(params_.k_cache, page, key_in_page, head, column) = k;
                *at<uint4>(params_.v_cache, page, key_in_page, head, column) = v;
            }
        }
        ptx::fence_proxy_async();
        __syncwarp();
    }

    // Eight columns of a new row as E4M3: to_fp8(x / scale), by IEEE division. E4M3 rows are copied.
    __device__ __forceinline__ uint2 quantised(const FlashcoreOperand& rows, float divisor, int sequence, int row, int head,
                                               int column) const {
        if (params_.new_dtype == DType::kE4m3) return *at<const uint2, uint8_t>(rows, sequence, row, head, column);
        const uint4 given = *at<const uint4>(rows, sequence, row, head, column);
        const uint32_t words[4] = {given.x, given.y, given.z, given.w};
        uint32_t result[2] = {};
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const uint32_t bits = words[i / 2] >> i % 2 * 16 & 0xFFFFu;
            const float value = params_.new_dtype == DType::kFp16 ? __half2float(__ushort_as_half(static_cast<uint16_t>(bits)))
                                                                  : __uint_as_float(bits << 16);
            result[i / 4] |= to_fp8(__fdiv_rn(value, divisor)) << i % 4 * 8;
        }
        return {result[0], result[1]};
    }

    template <class T, class Unit = uint16_t>
    __device__ __forceinline__ T* at(const FlashcoreOperand& operand, int64_t batch, int64_t row, int head, int column) const {
        auto* const elements = static_cast<Unit*>(operand.data);
        return reinterpret_cast<T*>(elements + batch * operand.batch_stride + row * operand.sequence_stride +
                                    head * operand.head_stride + column);
    }

    const ParamsOf<Tuning>& params_;
    SharedStorage<Tuning>& shared_;
    int lane_;
    EvenPartition cta_ranges_{0, 1};
    WorkPosition begin_{};
    Pages pages_;
    int kv_head_ = 0;
    [[no_unique_address]] std::conditional_t<kConfig.local, WindowStart, NoWindow> window_;
    sm90::RingPosition<kConfig.stages> ring_;
    sm90::RingPosition<kWorkQueueSlots> work_queue_;
};

}  // namespace flashcore::decode
