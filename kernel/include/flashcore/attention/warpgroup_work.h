// The work of one consumer warpgroup in a tile. Pure integer functions.
#pragma once

#include "flashcore/attention/tile_scheduler.h"

namespace flashcore::attention {

// A tile without keys gives zeros. Rows past the end of the sequence give nothing.
enum class WorkKind { kAttend, kStoreZeros, kOutOfRange };

struct WarpgroupWork {
    int n_blocks;      // KV blocks of the tile, visited from the last to the first
    int fully_masked;  // the first of these, which only rows of other warpgroups need
    int unmasked;      // KV blocks, counted from 0, that need no mask and keep the sign of their scores
    int first = 0;           // the last block that is visited
    int first_unmasked = 0;  // blocks below it need a mask too
};

constexpr float kUnchanged = 1.0f;  // the Params::score_sign of scores that keep their sign

template <class Tuning>
__device__ __forceinline__ int tile_n_blocks(const Params& params, const Tile& tile) {
    const BlockRange blocks = needed_blocks<Tuning>(params, tile, 0, Tuning::config.tile_m);
    return blocks.end - blocks.begin;
}

template <class Tuning>
__device__ __forceinline__ WorkKind work_kind(const Params& params, const Tile& tile, int warpgroup) {
    if (tile.row == kNoTile || tile_n_blocks<Tuning>(params, tile) == 0) return WorkKind::kStoreZeros;
    return warpgroup * kWarpgroupRows >= tile.rows ? WorkKind::kOutOfRange : WorkKind::kAttend;
}

// Through a window. More than one skipped block could need more slots than there are: a chunk may end in the middle of a tile.
template <class Tuning>
__device__ __forceinline__ WarpgroupWork local_work(const Params& params, const Tile& tile, int warpgroup) {
    constexpr int kTileN = Tuning::config.tile_n;
    const int first_row = warpgroup * kWarpgroupRows;
    const Window& window = local_of(params).window;
    const BlockRange blocks = needed_blocks<Tuning>(params, tile, 0, Tuning::config.tile_m);
    const BlockRange own = needed_blocks<Tuning>(params, tile, first_row, kWarpgroupRows);
    const int fully_masked = max(0, min(min(blocks.end - own.end, 1), blocks.end - blocks.begin - 1));
    const int start = max(blocks.end - fully_masked - 1, blocks.begin);
    const int seen_by_last = visible_range(window, tile, first_row + kWarpgroupRows - 1).first;
    const int seen_by_first = max(visible_range(window, tile, first_row).last, 0);
    const bool keeps_sign = params.score_sign == kUnchanged;
    const int unmasked = keeps_sign ? max(min(seen_by_first / kTileN, start), blocks.begin) : blocks.begin;
    const int first_unmasked = max(min((seen_by_last + kTileN - 1) / kTileN, unmasked), blocks.begin);
    return {blocks.end, fully_masked, unmasked, blocks.begin, first_unmasked};
}

template <class Tuning>
__device__ __forceinline__ WarpgroupWork warpgroup_work(const Params& params, const Tile& tile, int warpgroup) {
    constexpr Config kConfig = Tuning::config;
    if constexpr (kConfig.local) return local_work<Tuning>(params, tile, warpgroup);
    const int first_row = warpgroup * kWarpgroupRows;
    const int n_blocks = tile_n_blocks<Tuning>(params, tile);
    const int unmasked = unmasked_n_blocks<kConfig.causal>(tile, first_row, kConfig.tile_n);
    int fully_masked = 0;
    if constexpr (kConfig.causal) {
        const int own_n_blocks = needed_n_blocks<kConfig.causal>(tile, first_row, kWarpgroupRows, kConfig.tile_n);
        fully_masked = min(n_blocks - own_n_blocks, max(n_blocks - 1, 0));
    }
    return {n_blocks, fully_masked, params.score_sign == kUnchanged ? unmasked : 0};
}

}  // namespace flashcore::attention
