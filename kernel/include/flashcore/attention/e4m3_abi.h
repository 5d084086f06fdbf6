// C ABI of the attention forward in E4M3. Strides count elements. The head dimension is contiguous.
#pragma once

#include <cstdint>

#include "flashcore/core/export.h"
#include "flashcore/core/operand.h"

struct FlashcoreE4m3Arguments {
    uint32_t size;       // sizeof(FlashcoreE4m3Arguments)
    int32_t device;      // ordinal
    int32_t causal;      // 0 or 1, aligned to the bottom right
    int32_t max_ctas;    // limit of persistent CTAs, 0: one per multiprocessor
    float scale;         // factor of the scores before the softmax, together with those of q and k
    int32_t transposed;  // 1: v is what flashcore_e4m3_transpose wrote, and its strides are not used
    int64_t batch;
    int64_t heads;
    int64_t kv_heads;  // divides heads
    int64_t sq;
    int64_t sk;
    int64_t head_dim;  // 64, 128 or 256
    FlashcoreOperand q;
    FlashcoreOperand k;
    FlashcoreOperand v;
    FlashcoreOperand out;  // bf16
    const float* q_scale;  // one factor of each (batch, KV head), on the device. Null: 1
    const float* k_scale;
    const float* v_scale;
    float* lse;  // (batch, heads, sq), contiguous, natural logarithm, or null
    // Aligned to 128 bytes, used by one launch at a time. The first 128 bytes are zero before the first launch and after every
    // launch. The transposed values follow, unless `transposed`.
    void* workspace;
    int64_t workspace_bytes;
    void* stream;
    int64_t q_scale_batch_stride;
    int64_t q_scale_head_stride;
    int64_t k_scale_batch_stride;
    int64_t k_scale_head_stride;
    int64_t v_scale_batch_stride;
    int64_t v_scale_head_stride;
    int64_t q_scale_block_stride;
    int64_t k_scale_block_stride;
    int64_t v_scale_block_stride;
    // Bit 0: q_scale has one factor of each (batch, head, block of 64 queries). Bits 1 and 2: k_scale and v_scale have one of each
    // (batch, KV head, block of 128 keys).
    int32_t block_scales;
    int32_t reserved;
};

FLASHCORE_API int flashcore_e4m3_forward(const FlashcoreE4m3Arguments* arguments);

// Sequences of different lengths with packed rows, as FlashcoreVarlenArguments in attention/abi.h. Sequences must not overlap.
struct FlashcoreE4m3VarlenArguments {
    uint32_t size;
    int32_t device;
    int32_t causal;  // aligned to the bottom right of every sequence
    int32_t max_ctas;
    float scale;
    int32_t reserved;
    int64_t batch;  // number of sequences
    int64_t heads;
    int64_t kv_heads;
    int64_t total_q;     // rows of q and out
    int64_t total_k;     // rows of k and v
    int64_t head_dim;    // 64, 128 or 256
    FlashcoreOperand q;  // batch_stride is not used
    FlashcoreOperand k;
    FlashcoreOperand v;
    FlashcoreOperand out;         // bf16
    const int32_t* cu_seqlens_q;  // (batch + 1), on the device, like all arrays here
    const int32_t* cu_seqlens_k;
    const int32_t* seqused_q;  // (batch), how many of a sequence's first rows count, or null for all
    const int32_t* seqused_k;
    const float* q_scale;  // one factor of each (sequence, KV head). Null: 1
    const float* k_scale;
    const float* v_scale;
    float* lse;       // (heads, total_q), contiguous, or null
    void* workspace;  // aligned to 128 bytes, used by one launch at a time, needs no initial value
    int64_t workspace_bytes;
    void* stream;
    int64_t q_scale_batch_stride;
    int64_t q_scale_head_stride;
    int64_t k_scale_batch_stride;
    int64_t k_scale_head_stride;
    int64_t v_scale_batch_stride;
    int64_t v_scale_head_stride;
};

FLASHCORE_API int flashcore_e4m3_varlen(const FlashcoreE4m3VarlenArguments* arguments);

// Bytes of device memory that such a launch needs. Only batch, kv_heads, total_k and head_dim matter. -1 if these are refused.
FLASHCORE_API int64_t flashcore_e4m3_varlen_workspace_bytes(const FlashcoreE4m3VarlenArguments* arguments);

// Transposes values and permutes them (attention/value_order.h) to E4M3 (batch, kv_heads, head_dim, sk rounded up to 128), contiguous.
// Values of 16 bits are divided by their factor, clamped to +-448 and rounded to the nearest.
struct FlashcoreE4m3TransposeArguments {
    uint32_t size;
    int32_t device;
    int32_t dtype;  // 0 fp16, 1 bf16, 2 E4M3, which ignores the factor
    int32_t reserved;
    int64_t batch;
    int64_t kv_heads;
    int64_t sk;
    int64_t head_dim;  // 64, 128 or 256
    FlashcoreOperand v;
    const float* v_scale;
    int64_t v_scale_batch_stride;
    int64_t v_scale_head_stride;
    void* values;
    void* stream;
};

FLASHCORE_API int flashcore_e4m3_transpose(const FlashcoreE4m3TransposeArguments* arguments);
