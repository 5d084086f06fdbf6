// What one launch needs to know: built by the host, read by the device from constant memory.
#pragma once

#include <cuda.h>

#include "flashcore/attention/config.h"
#include "flashcore/core/variant.h"

namespace flashcore::attention {

// The order in which persistent CTAs take tiles; see attention/schedule.h.
struct Schedule {
    int tiles;      // query tiles of all heads and batches
    int row_tiles;  // query tiles of one head
    int sequences;  // batch * heads
    int group;      // sequences whose tiles are interleaved, longest first
};

// One sequence of a ragged batch, whose rows lie packed behind those of others. To the tensor maps a batch of kBatchRows rows
// ends at every row, and a sequence is the end of one: so the copy engine clips at the sequence's own end, with one map for all
// of them. Most rows of such a batch lie far outside the tensor; nobody asks for those.
constexpr int kBatchRows = 1 << 30;
struct alignas(32) SequenceInfo {
    int first_tile;  // number of its first tile; one span more, behind the last, has the number of all tiles
    int row_tiles;   // query tiles of one head
    int group;       // heads whose tiles are interleaved
    int q_batch;     // of the tensor maps: the row at which the queries end
    int k_batch;
    int sq;
    int sk;
};

// Two counters in device memory, zero between launches: tiles handed out beyond the first of each CTA, and CTAs that are done.
struct TileCounter {
    unsigned next;
    unsigned finished_ctas;
};

// Where the output goes. Strides count elements.
struct Output {
    void* data;
    int64_t batch_stride;
    int64_t sequence_stride;
    int64_t head_stride;
    int head_dim;  // columns that exist; a multiple of 8, as the strides are
};

constexpr float kRescaleThresholdLog2 = 8.0f;

struct Params {
    CUtensorMap q;  // (head_dim, sq, heads, batch, wrap), boxes of 64 x 64: a warpgroup's rows
    CUtensorMap k;  // (head_dim, sk, kv_heads, batch, wrap), boxes of 64 x tile_n
    CUtensorMap v;
    CUtensorMap out_rows;  // the output like q, boxes of 64 x 16: one warp's rows
    Output out;
    float* lse;  // or null; the rows of a head are contiguous
    int64_t lse_batch_stride;
    int64_t lse_head_stride;
    Schedule schedule;
    TileCounter* tile_counter;           // null: CTA c takes tiles c, c + ctas, c + 2 ctas, ...
    const SequenceInfo* sequence_infos;  // of a ragged batch; null: every sequence has sq queries and sk keys
    int sq;                              // rows of a batch of the tensor maps; kBatchRows if ragged, and so is sk
    int sk;
    int wrap;  // coordinate in the last dimension of every map, see attention/launcher.h
    int heads;
    int heads_per_kv_head;
    float scale_log2;         // |scale| * log2(e), at least the smallest normal float
    float scale;              // |scale|, for the log-sum-exp: scale_log2 * ln(2) would carry two roundings more
    float rescale_threshold;  // how far a score may exceed the maximum that is subtracted: kSlackLog2 / scale_log2
    float score_sign;         // 1, or what every score is multiplied by first: -1 for a negative scale, 0 for none
};

using AttentionVariant = Variant<Config, Params>;

}  // namespace flashcore::attention
