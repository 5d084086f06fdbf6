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
};

constexpr float kUnchanged = 1.0f;  // the Params::score_sign of scores that keep their sign

template <class Tuning>
__device__ __forceinline__ int tile_n_blocks(const Tile& tile) {
    constexpr Config kConfig = Tuning::config;
    return needed_n_blocks<kConfig.causal>(tile, 0, kConfig.tile_m, kConfig.tile_n);
}

template <class Tuning>
__device__ __forceinline__ WorkKind work_kind(const Tile& tile, int warpgroup) {
    if (tile.row == kNoTile || tile_n_blocks<Tuning>(tile) == 0) return WorkKind::kStoreZeros;
    return warpgroup * kWarpgroupRows >= tile.rows ? WorkKind::kOutOfRange : WorkKind::kAttend;
}

template <class Tuning>
__device__ __forceinline__ WarpgroupWork warpgroup_work(const Params& params, const Tile& tile, int warpgroup) {
    constexpr Config kConfig = Tuning::config;
    const int first_row = warpgroup * kWarpgroupRows;
    const int n_blocks = tile_n_blocks<Tuning>(tile);
    const int unmasked = unmasked_n_blocks<kConfig.causal>(tile, first_row, kConfig.tile_n);
    int fully_masked = 0;
    if constexpr (kConfig.causal) {
        const int own_n_blocks = needed_n_blocks<kConfig.causal>(tile, first_row, kWarpgroupRows, kConfig.tile_n);
        fully_masked = min(n_blocks - own_n_blocks, max(n_blocks - 1, 0));
    }
    return {n_blocks, fully_masked, params.score_sign == kUnchanged ? unmasked : 0};
}

}  // namespace flashcore::attention
