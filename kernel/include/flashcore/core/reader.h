// Reads Python tensors through the function table that DLPack offers (DLPackExchangeAPI of dlpack.h). One call reads all tensors
// of a launch, in the time that Python takes to read one property of one tensor. Host code.
#pragma once

#include <cstdint>

#include "flashcore/core/export.h"

// DLTensor of dlpack.h.
struct FlashcoreTensor {
    void* data;
    int32_t device_type;
    int32_t device;
    int32_t rank;
    uint8_t kind;
    uint8_t bits;
    uint16_t lanes;
    const int64_t* shape;
    const int64_t* strides;
    uint64_t byte_offset;
};

// The functions of Python's stable ABI and of the tensor type that reading needs.
struct FlashcoreReader {
    int64_t count;                                       // objects of the tuple to read
    void* (*item)(void* tuple, int64_t index);           // PyTuple_GetItem, returns a borrowed reference
    int (*is_instance)(void* object, void* type);        // PyObject_IsInstance: 1, 0, or -1 with Python's error set
    int (*read)(void* object, FlashcoreTensor* tensor);  // DLPackDLTensorFromPyObjectNoSync: 0, or -1 with Python's error set
    void* none;
    void* type;  // the tensor type
};

namespace flashcore {

constexpr int kReadRank = 4;  // most dimensions of a tensor

// Writes the type and the extents of a tensor, but not its address: 1 + 2 * rank words. Returns the end of what it wrote, or null
// if the rank is too large.
inline uint64_t* write_tensor(const FlashcoreTensor& tensor, uint64_t* at) {
    if (tensor.rank < 0 || tensor.rank > kReadRank) return nullptr;
    *at++ = static_cast<uint64_t>(tensor.rank) | static_cast<uint64_t>(tensor.kind) << 8 |
            static_cast<uint64_t>(tensor.bits) << 16 | static_cast<uint64_t>(tensor.lanes) << 24 |
            static_cast<uint64_t>(tensor.device_type & 0xff) << 40 | static_cast<uint64_t>(tensor.device & 0xffff) << 48;
    for (int i = 0; i < tensor.rank; ++i) *at++ = static_cast<uint64_t>(tensor.shape[i]);
    for (int i = 0; i < tensor.rank; ++i) *at++ = static_cast<uint64_t>(tensor.strides[i]);
    return at;
}

}  // namespace flashcore

// Reads the first objects of a tuple, each a tensor or None. The caller holds Python's lock. `words` gets `count` addresses, 0
// for None. After them comes everything else about each tensor, so tensors that differ only in their addresses give the same
// words there. `words` needs room for count * (2 + 2 * 4) words. Returns the number of words. Returns -1 - i if object i is not a
// tensor or has more than 4 dimensions.
FLASHCORE_API int64_t flashcore_read(const FlashcoreReader* reader, void* tuple, uint64_t* words);
