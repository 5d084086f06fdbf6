// What the local variants take: a window, a cap of the scores, and sinks. Host and device.
#pragma once

#include "flashcore/core/window.h"

namespace flashcore {

struct Local {
    Window window;
    float cap;                // of the scores, or 0
    float cap_factor;         // exp2(cap_factor * score) is exp(2 * scale * score / cap)
    const void* sinks;        // one logit per query head, not scaled, or null
    bool bf16_sinks;          // otherwise float
    unsigned* loaded_tiles;   // counts the KV tiles that are loaded, or null
};

}  // namespace flashcore
