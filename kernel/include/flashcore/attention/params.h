// Parameters of one launch. The host fills them in, the device reads them from constant memory.
#pragma once

#include <cuda.h>

#include "flashcore/attention/config.h"
#include "flashcore/core/divisor.h"
#include "flashcore/core/local.h"
#include "flashcore/core/variant.h"

namespace flashcore::attention {

// The order in which persistent CTAs process tiles (attention/tile_scheduler.h).
struct Schedule {
    int tiles;      // query tiles of all heads and batches
    int row_tiles;  // query tiles of one head
    int sequences;  // batch * heads
    int group;      // sequences whose tiles are interleaved, longest tiles first
};

// Varlen sequence info: one sequence of a packed batch. In the tensor maps, a batch of kBatchRows rows ends at every row, and a
// sequence is the end of such a batch. So TMA clips at the end of the sequence, with one map for all sequences. Most rows of such
// a batch are far outside the tensor and are never accessed.
constexpr int kBatchRows = 1 << 30;
struct alignas(32) SequenceInfo {
    int first_tile;  // number of its first tile. One more entry after the last holds the number of all tiles
    int row_tiles;   // query tiles of one head
    int group;       // heads whose tiles are interleaved
    int q_batch;     // in the tensor maps: the row at which the queries end
    int k_batch;
    int sq;
    int sk;
    int shared_tiles;  // the first of its tiles: heads share them for the last rows (attention/shared_heads.h). 0: none do
};

// Counters in device memory, zero between launches: tiles taken beyond the first of each CTA, and CTAs that have finished.
struct TileCounter {
    unsigned next;
    unsigned finished_ctas;
};

// The output tensor. Strides count elements.
struct Output {
    void* data;
    int64_t batch_stride;
    int64_t sequence_stride;
    int64_t head_stride;
    int head_dim;  // columns that exist, a multiple of 8 like the strides
};

constexpr float kRescaleThresholdLog2 = 8.0f;

struct Params {
    CUtensorMap q;  // (head_dim, sq, heads, batch, wrap), boxes of 64 x 64: a warpgroup's rows
    CUtensorMap k;  // (head_dim, sk, kv_heads, batch, wrap), boxes of 64 x tile_n
    CUtensorMap v;
    CUtensorMap out_rows;  // the output like q, boxes of 64 x 16: one warp's rows
    Output out;
    float* lse;  // or null. The rows of a head are contiguous
    int64_t lse_batch_stride;
    int64_t lse_head_stride;
    Schedule schedule;
    TileCounter* tile_counter;           // null: CTA c processes tiles c, c + ctas, c + 2 ctas, ...
    const SequenceInfo* sequence_infos;  // for a varlen batch. Null: every sequence has sq queries and sk keys
    int sq;                              // rows of a batch of the tensor maps, kBatchRows for varlen, like sk
    int sk;
    int wrap;  // coordinate in the last dimension of every map (attention/launcher.h)
    int heads;
    int heads_per_kv_head;
    float scale_log2;         // |scale| * log2(e), at least the smallest normal float
    float scale;              // |scale|, for the log-sum-exp, because scale_log2 * ln(2) would add two roundings
    float rescale_threshold;  // how far a score may exceed the subtracted max: kRescaleThresholdLog2 / scale_log2
    float score_sign;         // factor of every score before the scale: 1, -1 for a negative scale, 0 for a zero scale
};

// Keys and values in pages, or in packed rows, which are one page for all sequences. In the tensor maps a page of kBatchRows rows ends at every row of the page, as above. So TMA clips at
// the last key of the sequence. The heads are in the column dimension, because the maps have no dimension left for them.
struct Pages {
    const int* table;      // page numbers of every sequence. Null: packed rows
    int64_t table_stride;  // from one sequence to the next
    int count;             // pages that exist
    Divisor size;          // keys of a page
    int box_rows;          // keys of a TMA box: divides a page and a KV block
    int boxes;             // of a KV block
    int key_head_stride;   // elements
    int value_head_stride;
};

// Parameters of a paged entry function. The maps of keys and values are (columns of all heads, rows, pages, end, wrap), with
// boxes of 64 x box_rows. Other entry functions take the first part.
struct PagedParams : Params {
    Pages pages;
};

// Parameters of a local entry function.
struct LocalParams : PagedParams {
    Local local;
};

using AttentionVariant = Variant<Config, LocalParams>;

// One factor of each (batch, KV head), at any strides. Null: 1.
struct Descale {
    const float* data;
    int64_t batch_stride;
    int64_t head_stride;
};

// Parameters of an entry function for E4M3. The map of values is (keys, head_dim, kv_heads, batch, wrap) with boxes of
// tile_n x head_dim (attention/fp8.cuh).
struct Fp8Params : Params {
    Descale q_descale;
    Descale k_descale;
    Descale v_descale;
};

using Fp8AttentionVariant = Variant<Config, Fp8Params>;

template <bool kFp8>
struct ParamsFor {
    using Type = Params;
};
template <>
struct ParamsFor<true> {
    using Type = Fp8Params;
};
template <class Tuning>
using ParamsOf = typename ParamsFor<Tuning::config.dtype == DType::kE4m3>::Type;

}  // namespace flashcore::attention
