// The order of tiles and the keys that each tile needs. Pure integer functions, the same for every role.
#pragma once

#include "flashcore/attention/params.h"

namespace flashcore::attention {

// What consumers need to know of a tile. It travels through shared memory with the query.
struct alignas(16) Tile {
    int row;  // first row in coordinates of the tensor maps, or kNoTile
    int head;
    int batch;
    int rows;     // rows of the sequence from that row on, also beyond this tile
    int visible;  // keys that the first row sees, negative if later rows also see none
};

// A tile with what only the producer needs.
struct ProducerTile {
    Tile tile;
    int kv_batch;
    int first_key;  // where the sequence begins in its batch
};

constexpr int kNoTile = -1;

// The dynamic persistent tile scheduler, used by one thread of each CTA. Every CTA starts with the tile of its own number. After
// that it takes the next number from the tile counter. It fetches that number when the current tile is nearly loaded. Earlier, a
// CTA would reserve work that others could start first. Later, loading would wait for the answer. The last CTA that finds no tile
// resets the counters for the next launch.
class DynamicPersistentTileScheduler {
public:
    __device__ __forceinline__ explicit DynamicPersistentTileScheduler(const Params& params)
        : params_(params), index_(blockIdx.x) {}

    __device__ __forceinline__ void prefetch_next() {
        index_ = params_.tile_counter != nullptr ? static_cast<int>(gridDim.x + atomicAdd(&params_.tile_counter->next, 1u))
                                                 : index_ + static_cast<int>(gridDim.x);
    }

    __device__ __forceinline__ int get_next() const {
        if (index_ < tiles()) return index_;
        if (params_.tile_counter != nullptr) retire_cta();
        return kNoTile;
    }

private:
    __device__ __forceinline__ void retire_cta() const {
        __threadfence();
        if (atomicAdd(&params_.tile_counter->finished_ctas, 1u) != gridDim.x - 1) return;
        params_.tile_counter->next = 0;
        params_.tile_counter->finished_ctas = 0;
    }

    __device__ __forceinline__ int tiles() const {
        return params_.sequence_infos == nullptr ? params_.schedule.tiles
                                                 : params_.sequence_infos[params_.schedule.sequences].first_tile;
    }

    const Params& params_;
    int index_;
};

// For numbers that are not negative. A signed division takes three times the instructions and registers.
__device__ __forceinline__ int quotient(int dividend, int divisor) {
    return static_cast<int>(static_cast<unsigned>(dividend) / static_cast<unsigned>(divisor));
}

// The sequence of a varlen batch that a tile belongs to: the last one whose first tile does not come after it.
__device__ __forceinline__ int find_sequence_info(const Params& params, int index) {
    int batch = 0;
    for (int end = params.schedule.sequences; end - batch > 1;) {
        const int middle = (batch + end) / 2;
        (params.sequence_infos[middle].first_tile <= index ? batch : end) = middle;
    }
    return batch;
}

// The tile of a head, from a row of its sequence on. `batch` is 0 for varlen.
//
// The causal mask is aligned to the bottom right: the last query sees every key.
template <bool kCausal>
__device__ __forceinline__ ProducerTile tile_from(const Params& params, const SequenceInfo& info, int batch, int head, int row) {
    const int visible = kCausal ? row + 1 + info.sk - info.sq : info.sk;
    return {{params.sq - info.sq + row, head, info.q_batch + batch, info.sq - row, visible},
            info.k_batch + batch,
            params.sk - info.sk};
}

// Tiles run through the sequences in groups. Within a group the last query tile of every sequence comes first. Under a causal
// mask it is the longest, so short tiles fill the end. The keys and values of a group fit in L2 together. In a varlen batch the
// members of a group are heads of one sequence, and sequences with more keys come first.
template <bool kCausal>
__device__ __forceinline__ ProducerTile tile_in(const Params& params, const Schedule& schedule, const SequenceInfo& info, int index,
                                                int tile_m) {
    const int group_tiles = schedule.group * schedule.row_tiles;
    const int group = quotient(index, group_tiles);
    const int index_in_group = index - group * group_tiles;
    const int width = min(schedule.group, schedule.sequences - group * schedule.group);
    const int tile_rank = quotient(index_in_group, width);
    const int sequence = group * schedule.group + index_in_group - tile_rank * width;
    const int batch = quotient(sequence, params.heads);
    return tile_from<kCausal>(params, info, batch, sequence - batch * params.heads, (schedule.row_tiles - 1 - tile_rank) * tile_m);
}

// `found` takes the number of the tile's sequence info.
template <bool kCausal>
__device__ __forceinline__ ProducerTile tile_at(const Params& params, int index, int tile_m, int* found = nullptr) {
    Schedule schedule = params.schedule;
    SequenceInfo info{0, 0, 0, 0, 0, params.sq, params.sk, 0};
    if (params.sequence_infos != nullptr) {
        const int number = find_sequence_info(params, index);
        if (found != nullptr) *found = number;
        info = params.sequence_infos[number];
        schedule = {0, info.row_tiles, params.heads, info.group};
        index -= info.first_tile;
    }
    return tile_in<kCausal>(params, schedule, info, index, tile_m);
}

// Number of keys that a row of a tile sees. Negative for none.
template <bool kCausal>
__device__ __forceinline__ int visible_keys(const Tile& tile, int row) {
    return kCausal ? tile.visible + row : tile.visible;
}

// Number of KV blocks that any of a tile's rows [first, first + rows) needs. They are visited from the last to the first.
template <bool kCausal>
__device__ __forceinline__ int needed_n_blocks(const Tile& tile, int first, int rows, int tile_n) {
    const int last = min(first + rows, tile.rows) - 1;
    return max(0, visible_keys<kCausal>(tile, last) + tile_n - 1) / tile_n;
}

// KV blocks begin .. end - 1.
struct BlockRange {
    int begin;
    int end;
};

// The keys that a row of a tile sees through a window. `visible` minus 1 is the position of the tile's first row.
__device__ __forceinline__ KeyRange visible_range(const Window& window, const Tile& tile, int row) {
    return visible_range(window, tile.visible - 1 + row, tile.visible - 1 + tile.rows);
}

__device__ __forceinline__ const Local& local_of(const Params& params) {
    return static_cast<const LocalParams&>(params).local;
}

// The KV blocks that any of a tile's rows [first, first + rows) needs.
template <class Tuning>
__device__ __forceinline__ BlockRange needed_blocks(const Params& params, const Tile& tile, int first, int rows) {
    constexpr Config kConfig = Tuning::config;
    if constexpr (kConfig.local) {
        const int last = min(first + rows, tile.rows) - 1;
        const Window& window = local_of(params).window;
        const int begin = visible_range(window, tile, first).first / kConfig.tile_n;
        return {begin, max(begin, (visible_range(window, tile, last).last + kConfig.tile_n - 1) / kConfig.tile_n)};
    } else {
        return {0, needed_n_blocks<kConfig.causal>(tile, first, rows, kConfig.tile_n)};
    }
}

// Number of KV blocks, from the first on, that need no mask: every row from `first` on sees all their keys.
template <bool kCausal>
__device__ __forceinline__ int unmasked_n_blocks(const Tile& tile, int first, int tile_n) {
    return max(0, visible_keys<kCausal>(tile, first)) / tile_n;
}

}  // namespace flashcore::attention
