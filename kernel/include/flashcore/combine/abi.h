// C ABI of the merge of partial attention results: lse = ln sum_s exp(lse_s), out = sum_s exp(lse_s - lse) partial_s.
#pragma once

#include <cstdint>

#include "flashcore/core/export.h"
#include "flashcore/core/operand.h"

struct FlashcoreCombineArguments {
    uint32_t size;      // sizeof(FlashcoreCombineArguments), so that other versions are refused
    int32_t device;     // ordinal
    int32_t max_ctas;   // 0: no limit
    int32_t out_dtype;  // 0: fp16, 1: bf16, 2: float32
    int64_t splits;     // 1 to 256
    int64_t batch;
    int64_t sequence;
    int64_t heads;
    int64_t head_dim;
    FlashcoreOperand partial;  // float32, any alignment. Not read where lse_partial is -inf
    int64_t partial_split_stride;
    FlashcoreOperand lse_partial;  // float32, natural logarithms
    int64_t lse_partial_split_stride;
    FlashcoreOperand out;  // of out_dtype, any alignment
    float* lse;            // (batch, heads, sequence), contiguous
    void* stream;          // cudaStream_t
};

FLASHCORE_API int flashcore_combine(const FlashcoreCombineArguments* arguments);
