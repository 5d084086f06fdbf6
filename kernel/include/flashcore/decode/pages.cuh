// The page table.
#pragma once

#include "flashcore/decode/params.h"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::decode {

// The pages of one sequence. The warp holds 32 entries of the sequence's row of the page table and reads more when it needs them.
class Pages {
public:
    __device__ __forceinline__ Pages(const Cache& cache, int lane) : cache_(cache), lane_(lane) {}

    __device__ __forceinline__ void enter(int sequence) {
        sequence_ = sequence;
        first_ = last_ = 0;  // no entries held
    }

    // The page table entry of a key, and the key's position in that page.
    __device__ __forceinline__ int slot(int key) const { return key >> cache_.page_shift; }
    __device__ __forceinline__ int key_in_page(int key, int slot) const { return key - (slot << cache_.page_shift); }

    // Reads entries so that every lane has the one it asks for. The lanes ask for at most 32 consecutive entries. All lanes must
    // call.
    __device__ __forceinline__ void hold(int slot) {
        if (cache_.table == nullptr || __all_sync(sm90::kFullWarpMask, first_ <= slot && slot < last_)) return;
        first_ = __shfl_sync(sm90::kFullWarpMask, slot, 0);
        last_ = first_ + sm90::kWarpThreads;
        entry_ = read(min_int(first_ + lane_, (cache_.capacity >> cache_.page_shift) - 1));
    }

    // The page of a held entry, one per lane. All lanes must call.
    __device__ __forceinline__ int page(int slot) const {
        if (cache_.table == nullptr) return sequence_;
        return __shfl_sync(sm90::kFullWarpMask, entry_, slot - first_);
    }

    // Reads the page of any entry from the table.
    __device__ __forceinline__ int read(int slot) const {
        if (cache_.table == nullptr) return sequence_;
        return max_int(min_int(__ldg(cache_.table + sequence_ * cache_.table_stride + slot), cache_.pages - 1), 0);
    }

private:
    const Cache& cache_;
    int lane_;
    int sequence_ = 0;
    int first_ = 0;  // entries first_ .. last_ - 1 are held
    int last_ = 0;
    int entry_ = 0;
};

// The same for a warp that goes through the keys in order, in steps of an aligned power of two of at most 32 entries. The next 32
// entries are read while it uses the last ones.
class PagesAhead {
public:
    __device__ __forceinline__ PagesAhead(const Cache& cache, int lane) : cache_(cache), lane_(lane) {}

    __device__ __forceinline__ void enter(int sequence) {
        sequence_ = sequence;
        block_ = kNone;
    }

    // Makes the entry of a key, and those of its step, available. All lanes must call, with the same key.
    __device__ __forceinline__ void hold(int key) {
        const int block = (key >> cache_.page_shift) / sm90::kWarpThreads;
        if (cache_.table == nullptr || block == block_) return;
        entry_ = block == block_ + 1 ? next_ : read(block);
        next_ = read(block + 1);
        block_ = block;
    }

    // The page of a key, one per lane, and the key's position in it. All lanes must call.
    __device__ __forceinline__ int page(int key) const {
        if (cache_.table == nullptr) return sequence_;
        return max_int(min_int(__shfl_sync(sm90::kFullWarpMask, entry_, key >> cache_.page_shift), cache_.pages - 1), 0);
    }
    __device__ __forceinline__ int key_in_page(int key) const { return key & ((1u << cache_.page_shift) - 1); }

private:
    static constexpr int kNone = -2;

    // This lane's entry of a block of 32.
    __device__ __forceinline__ int read(int block) const {
        const int slot = min_int(block * sm90::kWarpThreads + lane_, (cache_.capacity >> cache_.page_shift) - 1);
        return __ldg(cache_.table + sequence_ * cache_.table_stride + slot);
    }

    const Cache& cache_;
    int lane_;
    int sequence_ = 0;
    int block_ = kNone;
    int entry_ = 0;
    int next_ = 0;
};

}  // namespace flashcore::decode
