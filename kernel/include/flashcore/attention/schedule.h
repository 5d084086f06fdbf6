// Which tile comes when, and which keys it needs. Pure integer functions, the same for every role.
#pragma once

#include "flashcore/attention/params.h"

namespace flashcore::attention {

struct alignas(8) Tile {
    int first_row;  // of the queries, or kNoTile
    int sequence;   // batch * heads + head
};

constexpr int kNoTile = -1;

// Hands out tile numbers, to one thread of each CTA. Every CTA begins with its own number; what follows is the next number
// that nobody has drawn. It is drawn when the tile before is nearly loaded: earlier, a CTA would keep to itself what others have
// time for; later, loading would wait for the answer. The last CTA to find nothing left zeroes the counters for the next launch.
class TileQueue {
public:
    __device__ __forceinline__ explicit TileQueue(const Params& params) : params_(params), index_(blockIdx.x) {}

    __device__ __forceinline__ void draw() {
        index_ = params_.tickets != nullptr ? static_cast<int>(gridDim.x + atomicAdd(&params_.tickets->next, 1u))
                                            : index_ + static_cast<int>(gridDim.x);
    }

    __device__ __forceinline__ int take() const {
        if (index_ < params_.schedule.tiles) return index_;
        if (params_.tickets != nullptr) finish();
        return kNoTile;
    }

private:
    __device__ __forceinline__ void finish() const {
        __threadfence();
        if (atomicAdd(&params_.tickets->finished, 1u) != gridDim.x - 1) return;
        params_.tickets->next = 0;
        params_.tickets->finished = 0;
    }

    const Params& params_;
    int index_;
};

// Tiles run through the sequences in groups. Within a group the last (under a causal mask the longest) query tile of every
// sequence comes first, so that the short ones fill the end; a group's keys and values fit in L2 together.
__device__ __forceinline__ Tile tile_at(const Params& params, int index, int tile_m) {
    const Schedule& schedule = params.schedule;
    const int group_tiles = schedule.group * schedule.row_tiles;
    const int group = index / group_tiles;
    const int within = index - group * group_tiles;
    const int width = min(schedule.group, schedule.sequences - group * schedule.group);
    const int sequence = group * schedule.group + within % width;
    const int row_tile = schedule.row_tiles - 1 - within / width;
    return {row_tile * tile_m, sequence};
}

// Keys that a query row may see. The causal mask is aligned bottom right: the last query sees every key.
template <bool kCausal>
__device__ __forceinline__ int visible_keys(const Params& params, int row) {
    if constexpr (!kCausal) return params.sk;
    return max(0, min(params.sk, row + 1 + params.sk - params.sq));
}

// Key tiles that any of the rows [first_row, first_row + rows) needs; they are visited from the last to the first.
template <bool kCausal>
__device__ __forceinline__ int needed_key_tiles(const Params& params, int first_row, int rows, int tile_n) {
    const int last_row = min(first_row + rows, params.sq) - 1;
    return (visible_keys<kCausal>(params, last_row) + tile_n - 1) / tile_n;
}

// Key tiles, counted from the first, of which every row from first_row on sees every key: they need no mask.
template <bool kCausal>
__device__ __forceinline__ int clear_key_tiles(const Params& params, int first_row, int tile_n) {
    return visible_keys<kCausal>(params, first_row) / tile_n;
}

}  // namespace flashcore::attention
