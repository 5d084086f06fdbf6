// C ABI of the streaming kernel: out = a * x + y in float32.
#pragma once

#include <cstdint>

#include "flashcore/core/export.h"

struct FlashcoreStreamArguments {
    uint32_t size;     // sizeof(FlashcoreStreamArguments), so that other versions are refused
    int32_t device;    // ordinal
    int32_t max_ctas;  // 0: one CTA per tile
    float a;
    int64_t count;   // elements
    const float* x;  // all three pointers are multiples of 16 bytes
    const float* y;
    float* out;
    void* stream;  // cudaStream_t
};

FLASHCORE_API int flashcore_stream_axpy(const FlashcoreStreamArguments* arguments);
