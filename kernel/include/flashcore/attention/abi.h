// C ABI of the attention forward. Strides count elements. The head dimension is contiguous.
#pragma once

#include <cstdint>

#include "flashcore/core/export.h"
#include "flashcore/core/local_abi.h"
#include "flashcore/core/operand.h"

struct FlashcoreAttentionArguments {
    uint32_t size;     // sizeof(FlashcoreAttentionArguments), so that other versions are refused
    int32_t device;    // ordinal
    int32_t dtype;     // 0 fp16, 1 bf16
    int32_t causal;    // 0 or 1, aligned to the bottom right
    int32_t max_ctas;  // limit of persistent CTAs, 0: one per multiprocessor
    float scale;       // factor of the scores before the softmax, any finite number
    int64_t batch;
    int64_t heads;
    int64_t kv_heads;  // divides heads
    int64_t sq;
    int64_t sk;
    int64_t head_dim;  // a multiple of 8 up to 256. 64, 128 and 256 need no padding
    FlashcoreOperand q;
    FlashcoreOperand k;
    FlashcoreOperand v;
    FlashcoreOperand out;
    const void* sinks;       // (heads), on the device, contiguous: a logit per query head, not scaled, or null
    uint32_t* loaded_tiles;  // on the device: the launch adds the KV tiles that it loads, or null
    float* lse;       // (batch, heads, sq), contiguous, natural logarithm, or null
    void* workspace;  // 8 bytes of device memory for the tile counter, aligned to 8, used by one launch at a time. Zero before
                      // the first launch and after every launch. Null: tiles in a fixed order. The results are the same.
    void* stream;     // cudaStream_t
    FlashcoreLocal local;
};

FLASHCORE_API int flashcore_attention_forward(const FlashcoreAttentionArguments* arguments);

// Sequences of different lengths with packed rows. Sequence b has the queries cu_seqlens_q[b] .. cu_seqlens_q[b + 1] - 1, and its
// keys likewise. Lengths beyond the existing rows are cut off. The kernel accesses no rows outside a sequence, and output rows of
// no sequence keep their values.
//
// In pages (page_size > 0) a sequence's keys follow its row of the table, and seqused_k has their number. It is limited to
// table_width * page_size, and null means that number. Entries past the last key are not read. A used entry outside the pool
// counts as the nearest page.
struct FlashcoreVarlenArguments {
    uint32_t size;  // sizeof(FlashcoreVarlenArguments)
    int32_t device;
    int32_t dtype;
    int32_t causal;  // aligned to the bottom right of every sequence
    int32_t max_ctas;
    float scale;
    int64_t batch;  // number of sequences
    int64_t heads;
    int64_t kv_heads;
    int64_t total_q;  // rows of q and out
    int64_t total_k;      // rows of k and v. Paged: not used
    int64_t head_dim;     // as above. Paged: 64, 128 or 256
    int64_t page_size;    // keys of a page, or 0: packed rows
    int64_t pages;        // pages of the pool. It and the next two only with pages
    int64_t table_width;  // entries of a sequence
    int64_t table_stride;  // from one sequence to the next
    int64_t min_queries;   // sequences of fewer queries keep their rows of out and lse
    FlashcoreOperand q;    // batch_stride is not used
    FlashcoreOperand k;    // paged: (pages, page_size, kv_heads, head_dim), like v
    FlashcoreOperand v;
    FlashcoreOperand out;
    const int32_t* cu_seqlens_q;  // (batch + 1), on the device, like all arrays here
    const int32_t* cu_seqlens_k;  // paged: not used
    const int32_t* seqused_q;     // (batch), how many of a sequence's first rows count, or null for all
    const int32_t* seqused_k;
    const int32_t* page_table;  // (batch, table_width), only with pages
    const void* sinks;            // as above
    uint32_t* loaded_tiles;
    float* lse;       // (heads, total_q), contiguous, or null
    void* workspace;  // aligned to 32 bytes, used by one launch at a time, needs no initial value
    int64_t workspace_bytes;
    void* stream;
    FlashcoreLocal local;
};

FLASHCORE_API int flashcore_attention_varlen(const FlashcoreVarlenArguments* arguments);

// Bytes of device memory that such a launch needs. Only the batch matters. Returns -1 if the arguments are refused.
FLASHCORE_API int64_t flashcore_attention_varlen_workspace_bytes(const FlashcoreVarlenArguments* arguments);
