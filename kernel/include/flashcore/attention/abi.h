// C ABI of the attention forward. Every stride counts elements; the head dimension is contiguous.
#pragma once

#include <cstdint>

#include "flashcore/core/operand.h"

struct FlashcoreAttentionArguments {
    uint32_t size;     // sizeof(FlashcoreAttentionArguments), so that a caller of another version is refused
    int32_t device;    // ordinal
    int32_t dtype;     // 0 fp16, 1 bf16
    int32_t causal;    // 0 or 1; bottom-right aligned
    int32_t max_ctas;  // cap on persistent CTAs; 0: one for each multiprocessor
    float scale;       // of the scores before the softmax; any finite number
    int64_t batch;
    int64_t heads;
    int64_t kv_heads;  // divides heads
    int64_t sq;
    int64_t sk;
    int64_t head_dim;  // a multiple of 8 up to 256; 64, 128 and 256 waste nothing
    FlashcoreOperand q;
    FlashcoreOperand k;
    FlashcoreOperand v;
    FlashcoreOperand out;
    float* lse;       // (batch, heads, sq), contiguous, natural logarithm; may be null
    void* workspace;  // 8 bytes of device memory, aligned to 8, zero before its first launch and after every launch, used by
                      // one launch at a time: CTAs then take tiles as they finish. Null: a fixed order. Same results.
    void* stream;     // cudaStream_t
};

extern "C" int flashcore_attention_forward(const FlashcoreAttentionArguments* arguments);

// Sequences of different lengths, their rows one behind the other: sequence b has the queries from cu_seqlens_q[b] to before
// cu_seqlens_q[b + 1], and keys likewise. What these say beyond the rows that there are is cut off. Nothing is read or written
// outside a sequence's own rows, and rows that belong to none stay as they are.
struct FlashcoreVarlenArguments {
    uint32_t size;  // sizeof(FlashcoreVarlenArguments)
    int32_t device;
    int32_t dtype;
    int32_t causal;  // bottom-right aligned in every sequence
    int32_t max_ctas;
    float scale;
    int64_t batch;  // sequences
    int64_t heads;
    int64_t kv_heads;
    int64_t total_q;  // rows of q and out
    int64_t total_k;
    int64_t head_dim;
    FlashcoreOperand q;  // batch_stride is not used
    FlashcoreOperand k;
    FlashcoreOperand v;
    FlashcoreOperand out;
    const int32_t* cu_seqlens_q;  // (batch + 1), on the device, as all of these
    const int32_t* cu_seqlens_k;
    const int32_t* seqused_q;  // (batch), how many of a sequence's rows count, the first ones; null: all
    const int32_t* seqused_k;
    float* lse;       // (heads, total_q), contiguous; may be null
    void* workspace;  // aligned to 32 bytes, used by one launch at a time; what is in it does not matter
    int64_t workspace_bytes;
    void* stream;
};

extern "C" int flashcore_attention_varlen(const FlashcoreVarlenArguments* arguments);

// Bytes of device memory that such a launch needs; only the batch matters. -1 if it is refused.
extern "C" int64_t flashcore_attention_varlen_workspace_bytes(const FlashcoreVarlenArguments* arguments);
