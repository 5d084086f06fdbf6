// What one consumer warpgroup has to do in a tile. Pure integer functions.
#pragma once

#include "flashcore/attention/schedule.h"

namespace flashcore::attention {

// A tile without keys gives zeros; rows past the end give nothing.
enum class Part { kAttend, kStoreZeros, kSitOut };

struct Share {
    int steps;    // key tiles of the tile; they are visited from the last to the first
    int skipped;  // of these, the first ones that only rows of other warpgroups need
    int clear;    // key tiles, counted from 0, that need no mask and keep the sign of their scores
};

constexpr float kUnchanged = 1.0f;  // Params::score_sign of scores that keep their sign

template <class Tuning>
__device__ __forceinline__ int tile_steps(const Tile& tile) {
    constexpr Config kConfig = Tuning::config;
    return needed_key_tiles<kConfig.causal>(tile, 0, kConfig.tile_m, kConfig.tile_n);
}

template <class Tuning>
__device__ __forceinline__ Part part_of(const Tile& tile, int warpgroup) {
    if (tile.row == kNoTile || tile_steps<Tuning>(tile) == 0) return Part::kStoreZeros;
    return warpgroup * kWarpgroupRows >= tile.rows ? Part::kSitOut : Part::kAttend;
}

template <class Tuning>
__device__ __forceinline__ Share share_of(const Params& params, const Tile& tile, int warpgroup) {
    constexpr Config kConfig = Tuning::config;
    const int own_row = warpgroup * kWarpgroupRows;
    const int steps = tile_steps<Tuning>(tile);
    const int clear = clear_key_tiles<kConfig.causal>(tile, own_row, kConfig.tile_n);
    int skipped = 0;
    if constexpr (kConfig.causal) {
        const int own_steps = needed_key_tiles<kConfig.causal>(tile, own_row, kWarpgroupRows, kConfig.tile_n);
        skipped = min(steps - own_steps, max(steps - 1, 0));
    }
    return {steps, skipped, params.score_sign == kUnchanged ? clear : 0};
}

}  // namespace flashcore::attention
