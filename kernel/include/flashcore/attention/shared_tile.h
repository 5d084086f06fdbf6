// The order of tiles where heads share them (shared_heads.h), and what each warpgroup gets of such a tile. Pure integer functions.
#pragma once

#include <type_traits>

#include "flashcore/attention/shared_heads.h"
#include "flashcore/attention/tile_scheduler.h"

namespace flashcore::attention {

// With the heads that share it: tile.head and those after it.
struct SharedTile : ProducerTile {
    int heads;
};

// What the producers of a paged variant send each other.
template <class Tuning>
using SentTile = std::conditional_t<can_share_heads(Tuning::config), SharedTile, ProducerTile>;

// Tile number `index` of a varlen batch. The shared tiles of a sequence come first. Under a causal mask they are the longest.
template <class Tuning>
__device__ __forceinline__ SharedTile shared_tile_at(const Params& params, int index) {
    constexpr Config kConfig = Tuning::config;
    const SequenceInfo info = params.sequence_infos[find_sequence_info(params, index)];
    index -= info.first_tile;
    if (index < info.shared_tiles) {
        const HeadSplit split = split_heads(params.heads_per_kv_head, kConfig.consumer_warpgroups);
        const int kv_head = quotient(index, split.tiles);
        const int first = (index - kv_head * split.tiles) * split.heads;
        const int head = kv_head * params.heads_per_kv_head + first;
        return {tile_from<kConfig.causal>(params, info, 0, head, (info.row_tiles - 1) * kConfig.tile_m),
                min(split.heads, params.heads_per_kv_head - first)};
    }
    const Schedule schedule{0, info.row_tiles - (info.shared_tiles > 0 ? 1 : 0), params.heads, info.group};
    return {tile_in<kConfig.causal>(params, schedule, info, index - info.shared_tiles, kConfig.tile_m), 1};
}

// A shared tile as the warpgroup of its head `number` gets it. A warpgroup takes the rows from its number times 64 on, so the
// tile begins as many rows earlier. All else follows from that, and a row's arithmetic does not depend on its warpgroup.
template <bool kCausal>
__device__ __forceinline__ Tile tile_of_head(const Tile& tile, int number) {
    const int rows = number * kWarpgroupRows;
    return {tile.row - rows, tile.head + number, tile.batch, tile.rows + rows, kCausal ? tile.visible - rows : tile.visible};
}

}  // namespace flashcore::attention
