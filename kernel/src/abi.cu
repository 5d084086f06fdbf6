// The functions that every FlashCore library exports.
#include "flashcore/core/export.h"
#include "flashcore/core/reader.h"
#include "flashcore/core/status.h"

namespace {
constexpr int kAbiVersion = 2;  // increase it when an argument struct or the meaning of a function changes
}

FLASHCORE_API int flashcore_abi_version() { return kAbiVersion; }

FLASHCORE_API const char* flashcore_error_string() { return flashcore::last_error_message(); }

extern "C" int64_t flashcore_read(const FlashcoreReader* reader, void* tuple, uint64_t* words) {
    constexpr uint64_t kNone = ~uint64_t{0};
    uint64_t* at = words + reader->count;
    for (int64_t i = 0; i < reader->count; ++i) {
        void* object = reader->item(tuple, i);
        words[i] = 0;
        if (object == reader->none) {
            *at++ = kNone;
            continue;
        }
        FlashcoreTensor tensor{};
        if (object == nullptr || reader->is_instance(object, reader->type) != 1 || reader->read(object, &tensor) != 0)
            return -1 - i;
        words[i] = reinterpret_cast<uint64_t>(tensor.data) + tensor.byte_offset;
        at = flashcore::write_tensor(tensor, at);
        if (at == nullptr) return -1 - i;
    }
    return at - words;
}
