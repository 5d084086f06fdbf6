// What one launch needs to know: built by the host, read by the device from constant memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "flashcore/core/operand.h"
#include "flashcore/core/variant.h"
#include "flashcore/decode/config.h"
#include "flashcore/decode/split_scheduler.h"

namespace flashcore::decode {

// The workspace: counters at its beginning, whatever the problem, and the pieces of cut units behind them.
constexpr int64_t kCounters = 65536;
constexpr int64_t kCounterBytes = kCounters * static_cast<int64_t>(sizeof(unsigned));

// Where a sequence's keys are. A contiguous cache is one whose page is a sequence.
struct Cache {
    const int32_t* lengths;  // null: all sequences are full
    const int32_t* table;    // null: page i belongs to sequence i
    int64_t table_stride;
    int capacity;    // keys of a sequence
    int page_shift;  // log2 of a page's keys; of a contiguous cache more than any key has bits, so that all are in page 0
    int pages;
    int new_keys;  // of each sequence; they follow the others
};

// Query heads of one KV head are packed as rows: row i is query i / group of head i % group. A unit of several KV heads, which
// lie side by side in memory, has a row tile for each of them, none of them full perhaps.
struct PackedRows {
    int heads;  // KV heads of a unit: 1, or one for each row tile
    int sq;
    int group;          // query heads of a KV head
    int count;          // sq * group: of one head
    int per_work_tile;  // of a unit: so many tiles of 16 rows
    int tile_shift;     // log2 of the number of tiles, which is at most that of consumer warps
    bool causal;

    FLASHCORE_HOST_DEVICE constexpr int tiles() const { return 1 << tile_shift; }
    FLASHCORE_HOST_DEVICE constexpr int tile_of(int warp) const { return warp & (tiles() - 1); }
    FLASHCORE_HOST_DEVICE constexpr int query_of(int row) const { return sq == 1 ? 0 : divide(row, group); }

    // Of a row of a unit of several heads: which of them, and which row of that.
    FLASHCORE_HOST_DEVICE constexpr int head_of(int row) const { return heads == 1 ? 0 : row / kRowTileRows; }
    FLASHCORE_HOST_DEVICE constexpr int row_of(int row) const { return heads == 1 ? row : row % kRowTileRows; }
    FLASHCORE_HOST_DEVICE constexpr bool exists(int row) const { return row_of(row) < count; }
};

struct Params {
    CUtensorMap
        k;  // (64, keys of a page, head_dim / 64, kv_heads, pages), boxes of 64 x keys of a box x head_dim / 64 x heads of a unit
    CUtensorMap v;
    FlashcoreOperand q;
    FlashcoreOperand k_cache;
    FlashcoreOperand v_cache;
    FlashcoreOperand k_new;
    FlashcoreOperand v_new;
    FlashcoreOperand out;
    float* lse;  // (batch, heads, sq) or null
    unsigned* counters;
    float* partials;
    Cache cache;
    PackedRows rows;
    SplitPolicy split_policy;
    int kv_heads;
    int row_work_tiles;  // units of a KV head
    int box_shift;       // log2 of the keys of a box
    float scale_log2;    // |scale| * log2(e), at least the smallest normal float
    float scale;         // |scale|, for the log-sum-exp
    float score_sign;    // 1, or what every score is multiplied by first: -1 for a negative scale, 0 for none
};

using DecodeVariant = Variant<Config, Params>;

}  // namespace flashcore::decode
