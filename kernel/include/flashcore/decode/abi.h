// C ABI of attention over a cache of keys and values: a few new queries for each sequence. Every stride counts elements; the
// head dimension is contiguous.
#pragma once

#include <cstdint>

#include "flashcore/core/operand.h"

struct FlashcoreDecodeArguments {
    uint32_t size;          // sizeof(FlashcoreDecodeArguments), so that a caller of another version is refused
    int32_t device;         // ordinal
    int32_t dtype;          // 0 fp16, 1 bf16
    int32_t causal;         // 0 or 1; query i of sq sees the keys up to the last but sq - 1 - i, of its own sequence
    int32_t deterministic;  // 1: a sequence's bits do not depend on the other sequences of the batch
    int32_t splits;         // into so many a sequence's keys are cut, at most; 0: chosen
    int32_t max_ctas;       // cap on the CTAs of the launch; 0: one for each multiprocessor
    int32_t page_size;      // keys of a page: 16, 64, 128 or 256; 0: the cache is contiguous
    float scale;            // of the scores before the softmax; any finite number
    int32_t check;          // 1: read lengths and page table back and refuse what lies outside the cache (synchronises)
    int64_t batch;
    int64_t heads;
    int64_t kv_heads;     // divides heads
    int64_t sq;           // new queries of a sequence: 1 to 16
    int64_t head_dim;     // 64, 128 or 256
    int64_t capacity;     // contiguous: keys that a sequence has room for
    int64_t pages;        // paged: pages of the pool
    int64_t table_width;  // paged: pages of a sequence in the table; a sequence has room for table_width * page_size keys
    int64_t new_keys;     // appended to each sequence before it is read; 0: none
    FlashcoreOperand q;   // (batch, sq, heads, head_dim)
    FlashcoreOperand k;   // (batch, capacity, kv_heads, head_dim), or (pages, page_size, kv_heads, head_dim)
    FlashcoreOperand v;
    FlashcoreOperand k_new;  // (batch, new_keys, kv_heads, head_dim); null without new keys
    FlashcoreOperand v_new;
    FlashcoreOperand out;       // like q
    const int32_t* lengths;     // (batch), on the device: keys in the cache before the append; null: room - new_keys for all.
                                // What is below 0 or above the room is taken as the nearest length. New keys that do not fit
                                // are dropped: no key in the cache is overwritten
    const int32_t* page_table;  // (batch, table_width), on the device; null when contiguous. An entry that a length reaches
                                // and that is outside the pool is taken as the nearest page
    int64_t table_stride;       // elements from one sequence's row to the next
    float* lse;                 // (batch, heads, sq), contiguous, natural logarithm; may be null
    void* workspace;            // aligned to 16 bytes, zero before its first launch and ready for the next after each; used by
                                // one launch at a time
    int64_t workspace_bytes;    // at least what flashcore_decode_workspace_bytes returns
    void* stream;               // cudaStream_t
};

extern "C" int flashcore_decode(const FlashcoreDecodeArguments* arguments);

// What a launch with these arguments needs, from its numbers alone; -1 if the arguments are refused.
extern "C" int64_t flashcore_decode_workspace_bytes(const FlashcoreDecodeArguments* arguments);
