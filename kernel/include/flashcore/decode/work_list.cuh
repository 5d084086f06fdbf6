// The linearised work list, which the producer computes from the lengths in device memory.
#pragma once

#include "flashcore/decode/params.h"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::decode {

// The number of keys of a sequence, including the new ones.
struct SequenceKeys {
    const Cache* cache;

    __device__ __forceinline__ int operator()(int sequence) const {
        const int old = cache->lengths == nullptr ? cache->capacity : __ldg(cache->lengths + sequence);
        return keys_after(old, cache->new_keys, cache->capacity);
    }
};

// The same for packed queries.
struct RaggedSequenceKeys {
    const RaggedParams* params;

    __device__ __forceinline__ int operator()(int sequence) const {
        const int queries = sequence_range(params->queries, sequence).length;
        if (queries < 1 || queries > params->max_queries) return kLeftOut;
        return SequenceKeys{&params->cache}(sequence);
    }
};

// How many of a sequence's first keys no query sees. Below the number of keys. A multiple of a tile, or of a box for a warpgroup, so
// that equal windows have equal numbers of tiles.
template <bool kBoxes>
__device__ __forceinline__ int skipped_keys(const LocalParams& params, int keys, int queries) {
    const int first = visible_range(params.local.window, keys - queries, keys).first;
    const int shift = kBoxes ? params.box_shift : params.split_policy.tile_shift;
    return min_int(first, max_int(keys - 1, 0)) >> shift << shift;
}

// The keys from the first tile on that a query sees through its window.
template <bool kRagged, bool kBoxes>
struct LocalSequenceKeys {
    const LocalParams* params;

    __device__ __forceinline__ int operator()(int sequence) const {
        int keys = 0, queries = params->rows.sq;
        if constexpr (kRagged) {
            queries = sequence_range(params->queries, sequence).length;
            keys = RaggedSequenceKeys{params}(sequence);
            if (keys == kLeftOut) return keys;
        } else {
            keys = SequenceKeys{&params->cache}(sequence);
        }
        return keys - skipped_keys<kBoxes>(*params, keys, queries);
    }
};

template <class Tuning>
using AllSequenceKeysOf = std::conditional_t<Tuning::config.ragged, RaggedSequenceKeys, SequenceKeys>;
template <class Tuning>
using LocalSequenceKeysOf = LocalSequenceKeys<Tuning::config.ragged, Tuning::config.warpgroup>;
template <class Tuning>
using SequenceKeysOf = std::conditional_t<Tuning::config.local, LocalSequenceKeysOf<Tuning>, AllSequenceKeysOf<Tuning>>;

template <class Tuning>
__device__ __forceinline__ SequenceKeysOf<Tuning> sequence_keys(const ParamsOf<Tuning>& params) {
    if constexpr (Tuning::config.ragged || Tuning::config.local) {
        return {&params};
    } else {
        return {&params.cache};
    }
}

__device__ __forceinline__ int inclusive_sum(int value, int lane) {
#pragma unroll
    for (int distance = 1; distance < sm90::kWarpThreads; distance *= 2) {
        const int below = __shfl_up_sync(sm90::kFullWarpMask, value, distance);
        if (lane >= distance) value += below;
    }
    return value;
}

// Finds where a CTA's range of the work list begins. Each lane adds up some consecutive sequences. With one sequence per lane
// there is no loop, because its start alone costs a short launch 1 %.
template <class Tuning>
class WorkList {
public:
    __device__ __forceinline__ WorkList(const ParamsOf<Tuning>& params, const SplitPolicy& split_policy, int lane)
        : keys_(sequence_keys<Tuning>(params)),
          split_policy_(split_policy),
          per_lane_(divide_up(split_policy.sequences, sm90::kWarpThreads)) {
        const int first = lane * per_lane_;
        const int last = min_int(first + per_lane_, split_policy.sequences);
        if constexpr (Tuning::config.warpgroup) {  // short code: its launches are short, and it runs once
#pragma unroll 1
            for (int sequence = first; sequence < last; ++sequence) lane_tiles_ += tiles(sequence);
        } else {
            lane_tiles_ = first < last ? tiles(first) : 0;
            if (per_lane_ > 1) {
#pragma unroll 4
                for (int sequence = first + 1; sequence < last; ++sequence) lane_tiles_ += tiles(sequence);
            }
        }
        inclusive_sum_ = inclusive_sum(lane_tiles_, lane);
    }

    // Length of one work tile of every sequence.
    __device__ __forceinline__ int length() const {
        return __shfl_sync(sm90::kFullWarpMask, inclusive_sum_, sm90::kWarpThreads - 1);
    }

    // The work tile that contains a tile or the gap before the next one. The list must be longer than `tile`.
    __device__ __forceinline__ WorkPosition find(int tile) const {
        const int work_tile = divide(tile, length());
        const int before = work_tile * length();
        const int lane = __ffs(static_cast<int>(__ballot_sync(sm90::kFullWarpMask, before + inclusive_sum_ > tile))) - 1;
        WorkPosition position{lane * per_lane_, work_tile,
                              before + __shfl_sync(sm90::kFullWarpMask, inclusive_sum_ - lane_tiles_, lane)};
        if (per_lane_ == 1) return position;
#pragma unroll 1
        for (;;) {
            const int end = position.origin + tiles(position.sequence);
            if (end > tile) return position;
            position.origin = end;
            ++position.sequence;
        }
    }

private:
    __device__ __forceinline__ int tiles(int sequence) const {
        return length_of<Tuning::config.ragged>(split_policy_, keys_(sequence));
    }

    SequenceKeysOf<Tuning> keys_;
    const SplitPolicy& split_policy_;
    int per_lane_;        // sequences per lane
    int lane_tiles_ = 0;  // tiles and gaps of these
    int inclusive_sum_;   // over the lanes up to this one
};

}  // namespace flashcore::decode
