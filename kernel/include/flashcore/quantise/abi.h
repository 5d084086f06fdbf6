// C ABI of the kernels that round 16-bit rows of 128 columns to E4M3. Strides count elements. The head dimension is contiguous.
#pragma once

#include <cstdint>

#include "flashcore/core/export.h"

struct FlashcoreQuantiseArguments {
    uint32_t size;  // sizeof(FlashcoreQuantiseArguments)
    int32_t device;
    int32_t dtype;      // 0 fp16, 1 bf16
    int32_t transform;  // 1: a Hadamard transform with `signs` comes first
    int64_t batch;
    int64_t rows;
    int64_t heads;
    int64_t kv_heads;  // divides heads. A scale belongs to a batch and a KV head
    int64_t batch_stride;
    int64_t row_stride;
    int64_t head_stride;
    const void* x;
    void* values;  // E4M3 (batch, rows, heads, 128), contiguous. Null: only the scales
    float* scale;  // (batch, kv_heads), contiguous: the largest magnitude / 448, at least 1e-30
    uint32_t signs[4];  // bit c % 32 of word c / 32: column c is negated before the transform
    void* stream;
};

// Rounds blocks of rows with a factor of their own, in one pass: 64 queries, 128 keys, or 128 values, which are transposed too.
struct FlashcoreQuantiseBlocksArguments {
    uint32_t size;
    int32_t device;
    int32_t dtype;  // 0 fp16, 1 bf16
    int32_t kind;   // 0 queries, 1 keys, 2 values
    int64_t batch;
    int64_t rows;
    int64_t heads;
    int64_t head_dim;  // 64, 128 or 256
    int64_t batch_stride;
    int64_t row_stride;
    int64_t head_stride;
    const void* x;
    void* values;       // E4M3 (batch, rows, heads, head_dim), contiguous. Of values: as flashcore_e4m3_transpose writes them
    float* scale;       // (batch, heads, blocks), contiguous: the largest magnitude of a block / 448, at least 1e-30
    uint32_t signs[8];  // bit c % 32 of word c / 32: column c is negated before the transform
    int32_t transform;  // 1: a Hadamard transform with `signs` comes first. Not of values
    int32_t reserved;
    void* stream;
};

// Brings E4M3 values in columns (the sequence stride is 1) into the order of flashcore_e4m3_transpose.
struct FlashcoreE4m3PermuteArguments {
    uint32_t size;
    int32_t device;
    int64_t batch;
    int64_t kv_heads;
    int64_t sk;
    int64_t head_dim;  // 64, 128 or 256
    int64_t batch_stride;
    int64_t column_stride;
    int64_t head_stride;
    const void* v;
    void* values;
    void* stream;
};

FLASHCORE_API int flashcore_quantise_blocks(const FlashcoreQuantiseBlocksArguments* arguments);
FLASHCORE_API int flashcore_e4m3_permute(const FlashcoreE4m3PermuteArguments* arguments);
FLASHCORE_API int flashcore_quantise(const FlashcoreQuantiseArguments* arguments);
