// Tuning of one decode variant and what follows from it: threads and shared memory. Host and device.
#pragma once

#include "flashcore/core/dtype.h"
#include "flashcore/core/host_device.h"

namespace flashcore::decode {

struct Config {
    int head_dim;
    DType dtype;
    int tile_keys;       // of a stage, which is one tile of keys and their values; several heads of a unit share them
    int stages;          // in shared memory: what a multiprocessor keeps in flight
    int consumer_warps;  // beside the one producer warp; a power of two
};

constexpr int kBytesPerElement = 2;
constexpr int kMmaKeys = 16;        // what a warp takes at a time: K of one mma
constexpr int kRowTileRows = 16;    // query rows of a row tile: M of one mma
constexpr int kMergeRows = 8;       // that the warps add up at a time
constexpr int kMergePad = 4;        // floats between rows there
constexpr int kWorkQueueSlots = 4;  // pieces that the producer may be ahead
constexpr int kSharedAlignment = 1024;

// KV heads that a unit may have together. Where a key of one head is 128 bytes, memory gives two heads' together sooner than
// apart.
FLASHCORE_HOST_DEVICE constexpr int max_heads(const Config& config) { return config.head_dim == 64 ? 2 : 1; }
FLASHCORE_HOST_DEVICE constexpr int threads(const Config& config) { return (config.consumer_warps + 1) * 32; }
FLASHCORE_HOST_DEVICE constexpr int tile_bytes(const Config& config) {
    return config.tile_keys * config.head_dim * kBytesPerElement;
}
FLASHCORE_HOST_DEVICE constexpr int merge_floats(const Config& config) {
    return config.consumer_warps * kMergeRows * (config.head_dim + kMergePad);
}
FLASHCORE_HOST_DEVICE constexpr int shared_bytes(const Config& config) {
    const int statistics = 2 * config.consumer_warps * kRowTileRows * 2 * 4;  // a maximum and a sum for each row, twice
    const int slots = config.stages * 2 * 8 + kWorkQueueSlots * (2 * 8 + 7 * 4);
    const int bytes = 2 * config.stages * tile_bytes(config) + merge_floats(config) * 4 + statistics + slots + 3 * 4;
    return (bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
}

}  // namespace flashcore::decode
