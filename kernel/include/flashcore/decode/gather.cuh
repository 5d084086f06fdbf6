// How the producer warps copy a tile whose keys are anywhere: a key of a page of few keys, 16 bytes per lane.
#pragma once

#include "flashcore/decode/copy_map.h"
#include "flashcore/decode/params.h"
#include "flashcore/decode/shared_storage.cuh"
#include "flashcore/ptx/cp_async.cuh"
#include "flashcore/ptx/memory.cuh"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::decode {

// The pages of one sequence, of any number of keys.
class DividedPages {
public:
    __device__ __forceinline__ DividedPages(const Cache& cache, const Divisor& page_size) : cache_(cache), page_size_(page_size) {}

    __device__ __forceinline__ void enter(int sequence) { table_ = cache_.table + sequence * cache_.table_stride; }

    // The page table entry of a key, and the key's position in that page.
    __device__ __forceinline__ int slot(int key) const { return page_size_.quotient(key); }
    __device__ __forceinline__ int key_in_page(int key, int slot) const { return key - slot * page_size_.value; }

    __device__ __forceinline__ const int32_t* entry(int slot) const { return table_ + slot; }
    __device__ __forceinline__ int inside(int page) const { return max_int(min_int(page, cache_.pages - 1), 0); }

private:
    const Cache& cache_;
    const Divisor& page_size_;
    const int32_t* table_ = nullptr;
};

// One of the producer warps. Each lane finds some of the warp's rows, and gives their addresses to the lanes that copy them.
template <class Tuning>
class Gather {
public:
    static constexpr Config kConfig = Tuning::config;
    using Map = CopyMap<Tuning>;

    __device__ __forceinline__ Gather(const ParamsOf<Tuning>& params, SharedStorage<Tuning>& shared, int warp, int lane)
        : params_(params), shared_(shared), pages_(params.cache, params.page_size), warp_(warp), lane_(lane) {
#pragma unroll
        for (int i = 0; i < Map::kPeriod; ++i) {
            offset_[i] = Map::shared_offset(Map::row_of_copy(warp, lane, i), lane % Map::kRowUnits);
        }
    }

    __device__ __forceinline__ void enter(int sequence, int kv_head) {
        pages_.enter(sequence);
        kv_head_ = kv_head;
    }

    // Loads the entries of the page table that belong to a tile into L2. Entries past the last key are not touched: the table may end
    // there.
    __device__ __forceinline__ void prefetch_pages(int first_key, int keys) const {
#pragma unroll
        for (int i = 0; i < Map::kRowsPerLane; ++i) {
            const int key = key_of_lane(i);
            if (key < keys) ptx::prefetch_l2(pages_.entry(pages_.slot(first_key + key)));
        }
    }

    // Reads them. `locate` waits for them.
    __device__ __forceinline__ void read_pages(int first_key, int keys) {
#pragma unroll
        for (int i = 0; i < Map::kRowsPerLane; ++i) {
            const int key = key_of_lane(i);
            const int slot = pages_.slot(first_key + key);
            page_[i] = key < keys ? __ldg(pages_.entry(slot)) : 0;
            key_in_page_[i] = pages_.key_in_page(first_key + key, slot);
        }
    }

    // Computes the addresses of this lane's rows.
    __device__ __forceinline__ void locate() {
#pragma unroll
        for (int i = 0; i < Map::kRowsPerLane; ++i) {
            const int head = kv_head_ + (max_heads(kConfig) == 1 ? 0 : Map::row_of_lane(warp_, lane_, i) >> params_.split_policy.tile_shift);
            const int page = pages_.inside(page_[i]);
            k_[i] = address(params_.k_cache, page, key_in_page_[i], head);
            v_[i] = address(params_.v_cache, page, key_in_page_[i], head);
        }
    }

    // Fills the columns beyond the head dimension with zeros, in all stages. No copy touches them later.
    __device__ __forceinline__ void clear_columns() const {
        if (is_inside()) return;
#pragma unroll 1
        for (int i = 0; i < kConfig.stages * Map::kCopies; ++i) {
            const int stage = i / Map::kCopies;
            const int row = Map::row_of_copy(warp_, lane_, i - stage * Map::kCopies);
            const uint32_t offset = Map::shared_offset(row, lane_ % Map::kRowUnits);
            *reinterpret_cast<uint4*>(shared_.k[stage] + offset) = make_uint4(0, 0, 0, 0);
            *reinterpret_cast<uint4*>(shared_.v[stage] + offset) = make_uint4(0, 0, 0, 0);
        }
    }

    // Copies the located rows of a tile that has so many keys. The others keep their old bytes, because their scores are masked.
    __device__ __forceinline__ void copy(int stage, int keys) const {
        const int unit_offset = lane_ % Map::kRowUnits * Map::kUnitBytes;
        const int copied_keys = is_inside() ? keys : 0;
        const uint32_t k_tile = ptx::shared_address(shared_.k[stage]), v_tile = ptx::shared_address(shared_.v[stage]);
#pragma unroll
        for (int i = 0; i < Map::kCopies; ++i) {
            const uint8_t* const k = from_lane(k_[Map::source_row(i)], Map::source_lane(lane_, i)) + unit_offset;
            const uint8_t* const v = from_lane(v_[Map::source_row(i)], Map::source_lane(lane_, i)) + unit_offset;
            const uint32_t offset = offset_[i % Map::kPeriod] + i / Map::kPeriod * Map::kPeriodBytes;
            if (key_of(Map::row_of_copy(warp_, lane_, i)) < copied_keys) {
                ptx::cp_async_16(k_tile + offset, k);
                ptx::cp_async_16(v_tile + offset, v);
            }
        }
    }

private:
    // Whether this lane's columns exist.
    __device__ __forceinline__ bool is_inside() const {
        return lane_ % Map::kRowUnits * Map::kUnitBytes < params_.head_dim * cache_bytes(kConfig);
    }

    // The key of a row, counted from the tile's first.
    __device__ __forceinline__ int key_of(int tile_row) const {
        return max_heads(kConfig) == 1 ? tile_row : tile_row & ((1 << params_.split_policy.tile_shift) - 1);
    }

    // More than any tile has if the lane finds no row.
    __device__ __forceinline__ int key_of_lane(int i) const {
        if (lane_ + i * Map::kLanes >= Map::kRows) return kConfig.tile_keys;
        return key_of(Map::row_of_lane(warp_, lane_, i));
    }

    __device__ __forceinline__ static const uint8_t* address(const FlashcoreOperand& cache, int64_t page, int64_t key, int head) {
        return static_cast<const uint8_t*>(cache.data) +
               (page * cache.batch_stride + key * cache.sequence_stride + head * cache.head_stride) * cache_bytes(kConfig);
    }

    __device__ __forceinline__ static const uint8_t* from_lane(const uint8_t* address, int lane) {
        return reinterpret_cast<const uint8_t*>(__shfl_sync(sm90::kFullWarpMask, reinterpret_cast<unsigned long long>(address), lane));
    }

    const ParamsOf<Tuning>& params_;
    SharedStorage<Tuning>& shared_;
    DividedPages pages_;
    int warp_;  // among the producers
    int lane_;
    int kv_head_ = 0;
    uint32_t offset_[Map::kPeriod];
    int page_[Map::kRowsPerLane] = {};  // of the next tile, as the table has it
    int key_in_page_[Map::kRowsPerLane] = {};
    const uint8_t* k_[Map::kRowsPerLane] = {};
    const uint8_t* v_[Map::kRowsPerLane] = {};
};

}  // namespace flashcore::decode
