// Which tile comes when, and which keys it needs. Pure integer functions, the same for every role.
#pragma once

#include "flashcore/attention/params.h"

namespace flashcore::attention {

// All that consumers need to know of a tile. It travels through shared memory with the query.
struct alignas(16) Tile {
    int row;  // the first one, as the tensor maps count, or kNoTile
    int head;
    int batch;
    int rows;     // that the sequence has from that one on, beyond this tile too
    int visible;  // keys that the first one sees, negative if later ones see none either
};

// And what only the producer needs.
struct Load {
    Tile tile;
    int kv_batch;
    int first_key;  // of the sequence, among those of its batch
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
        if (index_ < tiles()) return index_;
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

    __device__ __forceinline__ int tiles() const {
        return params_.spans == nullptr ? params_.schedule.tiles : params_.spans[params_.schedule.sequences].first_tile;
    }

    const Params& params_;
    int index_;
};

// Of numbers that are not negative: a third of the instructions, and registers, of a signed division.
__device__ __forceinline__ int quotient(int dividend, int divisor) {
    return static_cast<int>(static_cast<unsigned>(dividend) / static_cast<unsigned>(divisor));
}

// The sequence of a ragged batch that a tile belongs to: the last one whose first tile does not come after it.
__device__ __forceinline__ int batch_of(const Params& params, int index) {
    int batch = 0;
    for (int end = params.schedule.sequences; end - batch > 1;) {
        const int middle = (batch + end) / 2;
        (params.spans[middle].first_tile <= index ? batch : end) = middle;
    }
    return batch;
}

// Tiles run through the sequences in groups. Within a group the last (under a causal mask the longest) query tile of every
// sequence comes first, so that the short ones fill the end; a group's keys and values fit in L2 together. In a ragged batch
// the sequences of a group are heads of one span, and the spans with the most keys come first.
//
// The causal mask is aligned bottom right: the last query sees every key.
template <bool kCausal>
__device__ __forceinline__ Load tile_at(const Params& params, int index, int tile_m) {
    Schedule schedule = params.schedule;
    Span span{0, 0, 0, 0, 0, params.sq, params.sk};
    if (params.spans != nullptr) {
        span = params.spans[batch_of(params, index)];
        schedule = {0, span.row_tiles, params.heads, span.group};
        index -= span.first_tile;
    }
    const int group_tiles = schedule.group * schedule.row_tiles;
    const int group = quotient(index, group_tiles);
    const int within = index - group * group_tiles;
    const int width = min(schedule.group, schedule.sequences - group * schedule.group);
    const int turn = quotient(within, width);
    const int sequence = group * schedule.group + within - turn * width;
    const int batch = quotient(sequence, params.heads);  // 0 in a ragged one
    const int row = (schedule.row_tiles - 1 - turn) * tile_m;
    const int visible = kCausal ? row + 1 + span.sk - span.sq : span.sk;
    return {{params.sq - span.sq + row, sequence - batch * params.heads, span.q_batch + batch, span.sq - row, visible},
            span.k_batch + batch,
            params.sk - span.sk};
}

// Keys that a row of a tile sees, counted from the first; negative for none.
template <bool kCausal>
__device__ __forceinline__ int visible_keys(const Tile& tile, int row) {
    return kCausal ? tile.visible + row : tile.visible;
}

// Key tiles that any of a tile's rows [first, first + rows) needs; they are visited from the last to the first.
template <bool kCausal>
__device__ __forceinline__ int needed_key_tiles(const Tile& tile, int first, int rows, int tile_n) {
    const int last = min(first + rows, tile.rows) - 1;
    return max(0, visible_keys<kCausal>(tile, last) + tile_n - 1) / tile_n;
}

// Key tiles, counted from the first, of which every row from `first` on sees every key: they need no mask.
template <bool kCausal>
__device__ __forceinline__ int clear_key_tiles(const Tile& tile, int first, int tile_n) {
    return max(0, visible_keys<kCausal>(tile, first)) / tile_n;
}

}  // namespace flashcore::attention
