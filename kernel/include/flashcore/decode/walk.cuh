// Which keys come next, worked out by the producer from the lengths in device memory.
#pragma once

#include "flashcore/decode/params.h"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::decode {

// Keys of a sequence, the new ones among them. Whoever asks for one sequence after the other finds the next one's already there:
// while memory is busy, to read a length takes as long as several tiles.
class KeysOf {
public:
    __device__ __forceinline__ explicit KeysOf(const Cache& cache, int sequences) : cache_(cache), sequences_(sequences) {}

    __device__ __forceinline__ int operator()(int sequence) {
        const int old = sequence == next_ ? ahead_ : read(sequence);
        next_ = sequence + 1 < sequences_ ? sequence + 1 : 0;
        ahead_ = read(next_);
        return with_new(old);
    }
    __device__ __forceinline__ int alone(int sequence) const { return with_new(read(sequence)); }

private:
    __device__ __forceinline__ int read(int sequence) const {
        return cache_.lengths == nullptr ? cache_.room : __ldg(cache_.lengths + sequence);
    }
    __device__ __forceinline__ int with_new(int old) const {
        return most(least(old, cache_.room - cache_.new_keys), 0) + cache_.new_keys;
    }

    const Cache& cache_;
    int sequences_;
    int next_ = -1;  // sequence
    int ahead_ = 0;  // its length
};

__device__ __forceinline__ int inclusive_sum(int value, int lane) {
#pragma unroll
    for (int distance = 1; distance < sm90::kWarpThreads; distance *= 2) {
        const int below = __shfl_up_sync(sm90::kWholeWarp, value, distance);
        if (lane >= distance) value += below;
    }
    return value;
}

// The line of one unit of each sequence. A warp looks at 32 sequences at a time, and remembers those it looked at last.
class Line {
public:
    __device__ __forceinline__ Line(const Params& params, const Cut& cut, int lane)
        : keys_(params.cache, cut.sequences), cut_(cut), lane_(lane) {}

    // The unit that holds a tile or has it in the gap behind it; behind the last one, a unit that does not exist and begins where
    // the line ends.
    __device__ __forceinline__ Place find(int tile) {
        int origin = 0;
#pragma unroll 1
        for (int first = 0; first < cut_.sequences; first += sm90::kWarpThreads) {
            if (first != first_) look(first);
            const unsigned behind = __ballot_sync(sm90::kWholeWarp, origin + sum_ > tile);
            if (behind != 0) {
                const int found = __ffs(static_cast<int>(behind)) - 1;
                return {first + found, 0, origin + __shfl_sync(sm90::kWholeWarp, sum_ - own_, found)};
            }
            origin += __shfl_sync(sm90::kWholeWarp, sum_, sm90::kWarpThreads - 1);
        }
        return {cut_.sequences, 0, origin};
    }

private:
    __device__ __forceinline__ void look(int first) {
        const int sequence = first + lane_;
        first_ = first;
        own_ = sequence < cut_.sequences ? tiles_of(cut_, keys_.alone(sequence)) + cut_.gap : 0;
        sum_ = inclusive_sum(own_, lane_);
    }

    KeysOf keys_;
    Cut cut_;
    int lane_;
    int first_ = -1;  // of the sequences looked at
    int own_ = 0;     // tiles of this lane's and the gap behind them
    int sum_ = 0;     // of these up to this lane's
};

}  // namespace flashcore::decode
