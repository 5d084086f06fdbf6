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

// Tiles of the whole line, and the unit that holds one of them; a warp looks at 32 sequences at a time.
class Line {
public:
    __device__ __forceinline__ Line(const Params& params, int lane) : params_(params), keys_{&params.cache}, lane_(lane) {}

    __device__ __forceinline__ int tiles() const {
        if (params_.cache.lengths == nullptr) return params_.batch * tiles_in(0);
        int sum = 0;
        for (int sequence = lane_; sequence < params_.batch; sequence += sm90::kWarpThreads) sum += tiles_in(sequence);
        return __reduce_add_sync(sm90::kWholeWarp, sum);
    }

    __device__ __forceinline__ Place find(int tile) const {
        if (params_.cache.lengths == nullptr) {
            const int tiles = tiles_in(0);
            const int sequence = divide(tile, tiles);
            return place_in(sequence, sequence * tiles, divide(tiles, params_.cut.units), tile);
        }
        int origin = 0;
        for (int first = 0; first < params_.batch; first += sm90::kWarpThreads) {
            const int tiles = first + lane_ < params_.batch ? tiles_in(first + lane_) : 0;
            const int sum = inclusive_sum(tiles, lane_);
            const unsigned behind = __ballot_sync(sm90::kWholeWarp, origin + sum > tile);
            if (behind != 0) {
                const int found = __ffs(static_cast<int>(behind)) - 1;
                const int before = origin + __shfl_sync(sm90::kWholeWarp, sum - tiles, found);
                return place_in(first + found, before, divide(__shfl_sync(sm90::kWholeWarp, tiles, found), params_.cut.units),
                                tile);
            }
            origin += __shfl_sync(sm90::kWholeWarp, sum, sm90::kWarpThreads - 1);
        }
        return {params_.batch, 0, origin};  // behind the last tile: an empty share
    }

private:
    __device__ __forceinline__ int tiles_in(int sequence) const {
        return params_.cut.units * tiles_of(params_.cut, keys_(sequence));
    }

    const Params& params_;
    KeysOf keys_;
    int lane_;
};

// Hands out shares, to one warp of each CTA. Every CTA begins with the share of its own number; what follows is the next one that
// nobody has taken, asked for while the one before it is under way. The last CTA to find nothing left zeroes the counters for the
// next launch. Who has which share changes nothing in the result.
class ShareQueue {
public:
    __device__ __forceinline__ ShareQueue(const Params& params, const Deal& deal, int lane)
        : tickets_(params.counters + kTickets), shares_(deal.shares()), lane_(lane), next_(blockIdx.x) {}

    // Shares end with the first one that is behind the last.
    __device__ __forceinline__ bool take(int& share) {
        share = __shfl_sync(sm90::kWholeWarp, static_cast<int>(next_), 0);
        if (shares_ == static_cast<int>(gridDim.x)) {
            next_ = shares_;
        } else if (lane_ == 0) {
            if (share < shares_)
                next_ = gridDim.x + atomicAdd(&tickets_[0], 1u);
            else
                finish();
        }
        return share < shares_;
    }

private:
    __device__ __forceinline__ void finish() const {
        __threadfence();
        if (atomicAdd(&tickets_[1], 1u) != gridDim.x - 1) return;
        tickets_[0] = 0;
        tickets_[1] = 0;
    }

    unsigned* tickets_;
    int shares_;
    int lane_;
    unsigned next_;  // of the first lane
};

}  // namespace flashcore::decode
