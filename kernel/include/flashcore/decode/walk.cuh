// Which keys come next, worked out by the producer from the lengths in device memory.
#pragma once

#include "flashcore/decode/params.h"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::decode {

// Keys of a sequence, the new ones among them.
struct KeysOf {
    const Cache* cache;

    __device__ __forceinline__ int operator()(int sequence) const {
        const int old = cache->lengths == nullptr ? cache->room : __ldg(cache->lengths + sequence);
        return keys_after(old, cache->new_keys, cache->room);
    }
};

__device__ __forceinline__ int inclusive_sum(int value, int lane) {
#pragma unroll
    for (int distance = 1; distance < sm90::kWarpThreads; distance *= 2) {
        const int below = __shfl_up_sync(sm90::kWholeWarp, value, distance);
        if (lane >= distance) value += below;
    }
    return value;
}

// Where a CTA's share of the line begins. Each lane counts some sequences that follow each other; with one for each there is no
// loop, whose beginning alone costs a short launch one per cent.
class Line {
public:
    __device__ __forceinline__ Line(const Cache& cache, const Cut& cut, int lane)
        : keys_{&cache}, cut_(cut), each_(divide_up(cut.sequences, sm90::kWarpThreads)) {
        const int first = lane * each_;
        const int last = least(first + each_, cut.sequences);
        own_ = first < last ? tiles(first) : 0;
        if (each_ > 1) {
#pragma unroll 4
            for (int sequence = first + 1; sequence < last; ++sequence) own_ += tiles(sequence);
        }
        sum_ = inclusive_sum(own_, lane);
    }

    // Of one unit of every sequence.
    __device__ __forceinline__ int length() const { return __shfl_sync(sm90::kWholeWarp, sum_, sm90::kWarpThreads - 1); }

    // The unit that has a tile, or the gap behind it; the line must be longer.
    __device__ __forceinline__ Place find(int tile) const {
        const int unit = divide(tile, length());
        const int before = unit * length();
        const int lane = __ffs(static_cast<int>(__ballot_sync(sm90::kWholeWarp, before + sum_ > tile))) - 1;
        Place place{lane * each_, unit, before + __shfl_sync(sm90::kWholeWarp, sum_ - own_, lane)};
        if (each_ == 1) return place;
#pragma unroll 1
        for (;;) {
            const int end = place.origin + tiles(place.sequence);
            if (end > tile) return place;
            place.origin = end;
            ++place.sequence;
        }
    }

private:
    __device__ __forceinline__ int tiles(int sequence) const { return tiles_of(cut_, keys_(sequence)) + cut_.gap; }

    KeysOf keys_;
    const Cut& cut_;
    int each_;     // sequences of a lane
    int own_ = 0;  // tiles of these, and the gaps behind them
    int sum_;      // of the lanes up to this one
};

}  // namespace flashcore::decode
