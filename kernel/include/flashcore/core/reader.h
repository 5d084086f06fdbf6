// Python's tensors as C sees them: through the table of functions that their type offers by DLPack (DLPackExchangeAPI of
// dlpack.h), all of a call at once, in the time that Python takes to read one property of one of them. Host code.
#pragma once

#include <cstdint>

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

// What reading takes of Python's stable ABI and of the tensors' type.
struct FlashcoreReader {
    int64_t count;                                       // of the tuple's objects that are read
    void* (*item)(void* tuple, int64_t index);           // PyTuple_GetItem: borrowed
    int (*is_instance)(void* object, void* type);        // PyObject_IsInstance: 1, or 0, or -1 with Python's error set
    int (*read)(void* object, FlashcoreTensor* tensor);  // DLPackDLTensorFromPyObjectNoSync: 0, or -1 with Python's error set
    void* none;
    void* type;  // of the tensors
};

namespace flashcore {

constexpr int kReadRank = 4;  // at most

// The kind of a tensor and its extents, all but its address: 1 + 2 * rank words. `at` behind them; null if the rank is too large.
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

// Reads the first objects of a tuple, each a tensor or None, under Python's lock. `words` gets `count` addresses, 0 for None,
// and behind them all else that there is to know of each: what only differs in addresses has the same words there. Room for
// count * (2 + 2 * 4) words. Returns how many there are; -1 - i if object i is no tensor, or one of more than 4 dimensions.
extern "C" int64_t flashcore_read(const FlashcoreReader* reader, void* tuple, uint64_t* words);
