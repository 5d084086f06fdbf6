// C ABI of attention over a KV cache, with a few new queries per sequence. Strides count elements. The head dimension is
// contiguous.
#pragma once

#include <cstdint>

#include "flashcore/core/export.h"
#include "flashcore/core/local_abi.h"
#include "flashcore/core/operand.h"

struct FlashcoreDecodeArguments {
    uint32_t size;          // sizeof(FlashcoreDecodeArguments), so that other versions are refused
    int32_t device;         // ordinal
    int32_t dtype;          // of the query: 0 fp16, 1 bf16, 2 E4M3 (needs a cache of E4M3, and gives bf16)
    int32_t causal;         // 0 or 1. Query i of sq does not see the last sq - 1 - i keys of its sequence
    int32_t deterministic;  // 1: the other sequences of the batch do not change a sequence's bits
    int32_t splits;         // most splits of a sequence's keys, 0: chosen by the launcher
    int32_t max_ctas;       // limit of the CTAs of the launch, 0: as many as the multiprocessors hold
    int32_t page_size;      // keys of a page: a power of two from 16 on, for packed queries any number. 0: the cache is contiguous
    float scale;            // factor of the scores before the softmax, any finite number
    int32_t check;          // 1: read lengths and page table back and refuse those outside the cache (synchronises)
    int64_t batch;
    int64_t heads;
    int64_t kv_heads;     // divides heads
    int64_t sq;           // new queries of a sequence: 1 to 16. Packed queries: of those with work here, at most this many
    int64_t head_dim;     // a multiple of 8 up to 256. Caches of E4M3: of 16
    int64_t capacity;     // contiguous: most keys of a sequence
    int64_t pages;        // paged: pages of the pool
    int64_t table_width;  // paged: pages per sequence in the table. A sequence has at most table_width * page_size keys
    int64_t new_keys;     // appended to each sequence before it is read, or 0
    int64_t total_q;      // packed queries: rows of q and out. 0: every sequence has sq queries
    FlashcoreOperand q;   // (batch, sq, heads, head_dim), or (total_q, heads, head_dim) without a batch stride
    FlashcoreOperand k;   // (batch, capacity, kv_heads, head_dim), or (pages, page_size, kv_heads, head_dim)
    FlashcoreOperand v;
    FlashcoreOperand k_new;  // (batch, new_keys, kv_heads, head_dim), or null without new keys
    FlashcoreOperand v_new;
    FlashcoreOperand out;       // like q
    const int32_t* cu_seqlens_q;  // packed queries: (batch + 1), on the device. Sequence b has the rows cu_seqlens_q[b] ..
                                  // cu_seqlens_q[b + 1] - 1, cut off at total_q. Those of no or more than sq rows keep them
    const int32_t* seqused_q;     // packed queries: (batch), how many of a sequence's first rows count, or null for all
    const int32_t* lengths;     // (batch), on the device: keys in the cache before the append. Null: capacity - new_keys for all.
                                // A length below 0 or above the capacity counts as the nearest valid length. New keys that do
                                // not fit are dropped: no key in the cache is overwritten
    const int32_t* page_table;  // (batch, table_width), on the device, or null when contiguous. A used entry outside the pool
                                // counts as the nearest page
    const float* q_scale;       // (batch, kv_heads), on the device, or null for 1: value = element * scale. E4M3 queries only
    const float* k_scale;       // the same of K and V, or of each key (k_scale_per_key). E4M3 caches only. New rows are divided by it
    const float* v_scale;
    const void* sinks;       // (heads), on the device, contiguous: a logit per query head, not scaled, or null
    uint32_t* loaded_tiles;  // on the device: the launch adds the KV tiles that it loads, or null
    int64_t table_stride;       // elements from one sequence's row to the next
    float* lse;                 // (batch, heads, sq), packed queries (heads, total_q), contiguous, natural logarithm, or null
    void* workspace;            // aligned to 16 bytes, used by one launch at a time. Zero before the first launch. Every launch
                                // leaves it ready for the next
    int64_t workspace_bytes;    // at least what flashcore_decode_workspace_bytes returns
    void* stream;               // cudaStream_t
    int32_t cache_dtype;        // 2: the caches hold E4M3. Otherwise that of the query
    int32_t new_dtype;          // of k_new and v_new, which may be 0, 1 or 2 for E4M3 caches. Otherwise that of the query
    int64_t q_scale_batch_stride;  // elements
    int64_t q_scale_head_stride;
    int64_t k_scale_batch_stride;
    int64_t k_scale_head_stride;
    int64_t v_scale_batch_stride;
    int64_t v_scale_head_stride;
    int32_t k_scale_per_key;  // 1: k_scale has the shape of k without head_dim, and its batch stride is that of the pages or sequences
    int32_t v_scale_per_key;
    int64_t k_scale_key_stride;  // of k_scale_per_key. 0: the keys of a page, or of a sequence, share a scale
    int64_t v_scale_key_stride;
    FlashcoreLocal local;  // not with caches of E4M3
};

FLASHCORE_API int flashcore_decode(const FlashcoreDecodeArguments* arguments);

// Bytes of workspace for a launch with these arguments. Reads only the numbers, not the pointers. Returns -1 if they are refused.
FLASHCORE_API int64_t flashcore_decode_workspace_bytes(const FlashcoreDecodeArguments* arguments);
