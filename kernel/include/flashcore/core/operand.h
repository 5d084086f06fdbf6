// A four-dimensional tensor of 16-bit elements in the C ABI. Strides count elements. The head dimension is contiguous.
#pragma once

#include <cstdint>

struct FlashcoreOperand {
    void* data;  // a multiple of 16 bytes
    int64_t batch_stride;
    int64_t sequence_stride;
    int64_t head_stride;
};
