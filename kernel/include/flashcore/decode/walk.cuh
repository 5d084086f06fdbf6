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
        return most(least(old, cache->room - cache->new_keys), 0) + cache->new_keys;
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

// The unit that holds a tile of the line; behind the last tile, a unit that does not exist and begins where the line ends. A warp
// looks at 32 sequences at a time, and remembers those it looked at last.
class Line {
public:
    __device__ __forceinline__ Line(const Params& params, const Cut& cut, int lane)
        : keys_{&params.cache}, cut_(cut), batch_(params.batch), lane_(lane) {}

    __device__ __forceinline__ Place find(int tile) {
        int origin = 0;
#pragma unroll 1
        for (int first = 0; first < batch_; first += sm90::kWarpThreads) {
            if (first != first_) look(first);
            const unsigned behind = __ballot_sync(sm90::kWholeWarp, origin + sum_ > tile);
            if (behind != 0) {
                const int found = __ffs(static_cast<int>(behind)) - 1;
                const int before = origin + __shfl_sync(sm90::kWholeWarp, sum_ - in_line(), found);
                return place_in(cut_, first + found, before, __shfl_sync(sm90::kWholeWarp, unit_tiles_, found), tile);
            }
            origin += __shfl_sync(sm90::kWholeWarp, sum_, sm90::kWarpThreads - 1);
        }
        return {batch_, 0, origin};
    }

private:
    __device__ __forceinline__ void look(int first) {
        const int sequence = first + lane_;
        first_ = first;
        unit_tiles_ = sequence < batch_ ? tiles_of(cut_, keys_(sequence)) : 0;
        sum_ = inclusive_sum(in_line(), lane_);
    }
    __device__ __forceinline__ int in_line() const { return unit_tiles_ > 0 ? cut_.units * (unit_tiles_ + cut_.gap) : 0; }

    KeysOf keys_;
    Cut cut_;
    int batch_;
    int lane_;
    int first_ = -1;      // of the sequences looked at
    int unit_tiles_ = 0;  // of this lane's
    int sum_ = 0;         // of the tiles up to this lane's
};

}  // namespace flashcore::decode
