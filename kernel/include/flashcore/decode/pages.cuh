// Where the keys of a sequence are: in pages of a pool, or all in one.
#pragma once

#include "flashcore/decode/params.h"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::decode {

// A warp holds 32 entries of the page table that follow each other, and has asked for those that it will need next: the next 32 of
// the sequence, or the first ones of the sequence behind it. While memory is busy, to read one takes as long as several tiles.
class Pages {
public:
    __device__ __forceinline__ Pages(const Cache& cache, int sequences, int lane)
        : cache_(cache), sequences_(sequences), lane_(lane), width_(cache.room >> cache.page_shift) {}

    // Which entry of its row of the table a key's page is in, and its place in that page.
    __device__ __forceinline__ int slot(int key) const { return key >> cache_.page_shift; }
    __device__ __forceinline__ int within(int key, int slot) const { return key - (slot << cache_.page_shift); }

    // Keys `first` to `last - 1` of a sequence come next.
    __device__ __forceinline__ void enter(int sequence, int first, int last) {
        sequence_ = sequence;
        if (!has_table()) return;
        last_ = slot(last - 1) + 1;
        if (ahead_sequence_ != sequence || ahead_first_ != slot(first)) ask(sequence, slot(first));
        advance();
    }

    // The page in an entry, each lane its own. All lanes call; they want 32 that follow each other at most, and the first lane the
    // first of them, which is not before what was wanted last.
    __device__ __forceinline__ int page(int slot) {
        if (!has_table()) return sequence_;
        if (__shfl_sync(sm90::kWholeWarp, slot, 0) - first_ >= sm90::kWarpThreads) advance();
        const int place = slot - first_;
        int page = __shfl_sync(sm90::kWholeWarp, entry_, place);  // of the lane that is the place's remainder by 32
        if (__any_sync(sm90::kWholeWarp, place >= sm90::kWarpThreads)) {
            const int ahead = __shfl_sync(sm90::kWholeWarp, ahead_, place);
            if (place >= sm90::kWarpThreads) page = ahead;
        }
        return in_pool(page);
    }

    // The page in any entry, straight from the table.
    __device__ __forceinline__ int look_up(int slot) const { return has_table() ? in_pool(read(sequence_, slot)) : sequence_; }

private:
    __device__ __forceinline__ bool has_table() const { return cache_.table != nullptr && width_ > 0; }

    __device__ __forceinline__ void advance() {
        entry_ = ahead_;
        first_ = ahead_first_;
        const int next = first_ + sm90::kWarpThreads;
        const bool more = next < last_;
        ask(more ? sequence_ : sequence_ + 1 < sequences_ ? sequence_ + 1 : 0, more ? next : 0);
    }

    __device__ __forceinline__ void ask(int sequence, int first) {
        ahead_sequence_ = sequence;
        ahead_first_ = first;
        ahead_ = read(sequence, least(first + lane_, width_ - 1));
    }

    __device__ __forceinline__ int read(int sequence, int slot) const {
        return __ldg(cache_.table + sequence * cache_.table_stride + slot);
    }
    __device__ __forceinline__ int in_pool(int page) const { return most(least(page, cache_.pages - 1), 0); }

    const Cache& cache_;
    int sequences_;
    int lane_;
    int width_;  // entries of a sequence
    int sequence_ = 0;
    int last_ = 0;   // the entry behind the last one of this sequence that will be wanted
    int first_ = 0;  // of those held
    int entry_ = 0;
    int ahead_sequence_ = -1;
    int ahead_first_ = 0;
    int ahead_ = 0;
};

}  // namespace flashcore::decode
