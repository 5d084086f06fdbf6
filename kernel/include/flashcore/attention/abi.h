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
