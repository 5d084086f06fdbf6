// Tuning and parameters of the streaming kernel, shared by host and device.
#pragma once

#include <cstdint>

#include "flashcore/core/host_device.h"
#include "flashcore/core/variant.h"

namespace flashcore::stream {

constexpr int kFloatsPerVector = 4;  // one 16-byte access

struct Config {
    int threads;
    int vectors_per_thread;  // loads in flight per operand
};

struct Params {
    const float* x;
    const float* y;
    float* out;
    int64_t count;
    float a;
};

FLASHCORE_HOST_DEVICE constexpr int vectors_per_tile(const Config& config) { return config.threads * config.vectors_per_thread; }

using StreamVariant = Variant<Config, Params>;

}  // namespace flashcore::stream
