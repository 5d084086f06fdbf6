// Tiles that query heads of one KV head share. The last query tile of a sequence may have rows for one warpgroup only. Then each
// warpgroup takes these rows of another head, and all of them use the same KV blocks. Host and device.
#pragma once

#include "flashcore/attention/config.h"

namespace flashcore::attention {

// How the query heads of a KV head are divided into tiles, as evenly as possible.
struct HeadSplit {
    int tiles;
    int heads;  // of a tile. The last tile may have fewer
};

FLASHCORE_HOST_DEVICE constexpr HeadSplit split_heads(int heads_per_kv_head, int warpgroups) {
    const auto heads = static_cast<unsigned>(heads_per_kv_head);
    const unsigned tiles = (heads + static_cast<unsigned>(warpgroups) - 1) / static_cast<unsigned>(warpgroups);
    return {static_cast<int>(tiles), static_cast<int>((heads + tiles - 1) / tiles)};
}

// Through a window the KV blocks of a tile follow from its first row, so there every tile has one head.
FLASHCORE_HOST_DEVICE constexpr bool can_share_heads(const Config& config) { return config.paged_kv && !config.local; }

}  // namespace flashcore::attention
