// A window, a cap of the scores and sinks in the C ABI.
#pragma once

#include <cstdint>

struct FlashcoreLocal {
    int32_t enabled;       // 0: this, the sinks and the counter do not count
    int32_t window_left;   // a query sees so many keys before its position, aligned to the bottom right. Negative: all
    int32_t window_right;  // and after it
    int32_t chunk;         // a query sees the keys whose position divided by it is the same as its own. 0: all
    float softcap;         // scores become softcap * tanh(scale * score / softcap). 0: they stay
    int32_t sinks_dtype;   // 0 fp32, 1 bf16
};
