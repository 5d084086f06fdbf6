// Parameters of one launch. The host fills them in, the device reads them from constant memory.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <type_traits>

#include "flashcore/core/divisor.h"
#include "flashcore/core/dtype.h"
#include "flashcore/core/local.h"
#include "flashcore/core/operand.h"
#include "flashcore/core/sequence_range.h"
#include "flashcore/core/variant.h"
#include "flashcore/decode/config.h"
#include "flashcore/decode/split_scheduler.h"

namespace flashcore::decode {

// The workspace: a fixed number of counters first, then the partial results of work tiles with several splits.
constexpr int64_t kCounters = 65536;
constexpr int64_t kCounterBytes = kCounters * static_cast<int64_t>(sizeof(unsigned));

// The KV cache. A contiguous cache has one page per sequence.
struct Cache {
    const int32_t* lengths;  // null: all sequences are full
    const int32_t* table;    // null: page i belongs to sequence i
    int64_t table_stride;
    int capacity;    // most keys of a sequence
    int page_shift;  // log2 of a page's keys. For a contiguous cache it exceeds the bits of any key, so that all are in page 0
    int pages;
    int new_keys;  // new keys of each sequence, after the old ones
};

// Query heads of one KV head are packed as rows: row i is query i / group of head i % group. A work tile of several KV heads,
// which are neighbours in memory, has one row tile per head. Those may be partly empty.
struct PackedRows {
    int heads;  // KV heads of a work tile: 1, or one per row tile
    int sq;
    int group;          // query heads per KV head
    int count;          // rows of one head: sq * group
    int per_work_tile;  // rows of a work tile, in row tiles of 16
    int tile_shift;     // log2 of the row tiles, of which there are at most as many as consumer warps
    bool causal;

    FLASHCORE_HOST_DEVICE constexpr int tiles() const { return 1 << tile_shift; }
    FLASHCORE_HOST_DEVICE constexpr int tile_of(int warp) const { return warp & (tiles() - 1); }
    FLASHCORE_HOST_DEVICE constexpr int query_of(int row) const { return sq == 1 ? 0 : divide(row, group); }

    // Log2 of the row tiles that so many queries need, or of the heads. Fewer row tiles leave more warps for the keys of each.
    FLASHCORE_HOST_DEVICE constexpr int tile_shift_for(int queries) const {
        int shift = tile_shift;
        while (heads == 1 && shift > 0 && kRowTileRows << (shift - 1) >= queries * group) --shift;
        return shift;
    }

    // The head of a row of a work tile, and its row within that head.
    FLASHCORE_HOST_DEVICE constexpr int head_of(int row) const { return heads == 1 ? 0 : row / kRowTileRows; }
    FLASHCORE_HOST_DEVICE constexpr int row_of(int row) const { return heads == 1 ? row : row % kRowTileRows; }
    FLASHCORE_HOST_DEVICE constexpr bool exists(int row) const { return row_of(row) < count; }
};

struct Params {
    // (64, keys of a page, head_dim / 64, kv_heads, pages).
    // Boxes of 64 x keys of a box x head_dim / 64 x heads of a work tile.
    // With a box per column: (head_dim, keys of a page, 1, kv_heads, pages), in boxes of 64 x keys of a box x 1 x 1.
    CUtensorMap k;
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
    int row_work_tiles;  // work tiles per KV head
    int box_shift;       // log2 of the keys of a box
    float scale_log2;    // |scale| * log2(e), at least the smallest normal float
    float scale;         // |scale|, for the log-sum-exp
    float score_sign;    // factor of every score before the scale: 1, -1 for a negative scale, 0 for a zero scale
    int head_dim;        // at most that of the variant. Columns beyond it are zero in shared memory, and are not stored
};

// Factors of an E4M3 tensor, fp32 (batch, kv heads) with any strides, or null for 1.
struct Scale {
    const float* data;
    int64_t batch_stride;
    int64_t head_stride;
};

// A cache of E4M3: value = element * scale. The scale of the query is null unless the query is E4M3 too.
struct Fp8Params : Params {
    Scale q_scale;
    Scale k_scale;
    Scale v_scale;
    DType new_dtype;  // of k_new and v_new
};

// Factors of single keys or values of E4M3, fp32 (pages, keys of a page, kv heads) with any strides, or null for 1. With a key stride of
// 0 the keys of a page share one. A contiguous cache has one page per sequence.
struct KeyScale {
    const float* data;
    int64_t page_stride;
    int64_t key_stride;
    int64_t head_stride;
};

// With scales of single keys or pages. K, and V, has at most one of the two kinds.
struct KeyScaleParams : Fp8Params {
    KeyScale k_key_scale;
    KeyScale v_key_scale;
    DType q_dtype;
};

// Packed queries: a launch takes the sequences of 1 to max_queries queries. The batch strides of query and output are 0.
struct RaggedParams : Params {
    SequenceLengths queries;
    int max_queries;
};

// With a window, also of queries that are not packed. Positions of keys and tiles in a split then count from the first tile that
// any query of the sequence sees, so the work list has no others.
struct LocalParams : RaggedParams {
    Local local;
};

// With keys that are copied one by one. Its tensor maps are unused, and a box is a tile.
struct GatherParams : LocalParams {
    Divisor page_size;
};

template <class Tuning>
using Fp8ParamsOf = std::conditional_t<Tuning::config.key_scales, KeyScaleParams, Fp8Params>;
template <class Tuning>
using PackedParamsOf = std::conditional_t<Tuning::config.fp8_cache, Fp8ParamsOf<Tuning>,
                                    std::conditional_t<Tuning::config.ragged, RaggedParams, Params>>;
template <class Tuning>
using TmaParamsOf = std::conditional_t<Tuning::config.local, LocalParams, PackedParamsOf<Tuning>>;
template <class Tuning>
using ParamsOf = std::conditional_t<Tuning::config.gathered, GatherParams, TmaParamsOf<Tuning>>;
template <class Tuning>
using SplitOf = std::conditional_t<Tuning::config.ragged, RaggedSplit, Split>;

using DecodeVariant = Variant<Config, Params>;
using Fp8DecodeVariant = Variant<Config, Fp8Params>;
using KeyScaleDecodeVariant = Variant<Config, KeyScaleParams>;
using RaggedDecodeVariant = Variant<Config, RaggedParams>;
using LocalDecodeVariant = Variant<Config, LocalParams>;
using GatherDecodeVariant = Variant<Config, GatherParams>;

}  // namespace flashcore::decode
