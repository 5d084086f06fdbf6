// Tuning of one decode variant and what it implies: threads and shared memory. Host and device.
#pragma once

#include "flashcore/core/dtype.h"
#include "flashcore/core/host_device.h"

namespace flashcore::decode {

struct Config {
    int head_dim;
    DType dtype;
    int tile_keys;       // keys of a stage, which holds one tile of keys and values. The heads of a work tile share them
    int stages;          // stages in shared memory, which bounds what a multiprocessor keeps in flight
    int consumer_warps;  // in addition to the producer warps, a power of two
    bool ragged = false;     // sequences have different numbers of queries, in packed rows
    bool fp8_cache = false;  // the cache holds E4M3, with scales per sequence and KV head. `dtype` is that of the query
    bool key_scales = false;  // keys or pages of E4M3 have scales. Queries are of any type, and `dtype` is that of the cache
    bool local = false;      // the mask is a window. Sinks and a cap of the scores are possible
    bool deterministic = false;  // the sums of fixed segments of a sequence are folded in order (segments.h)
    bool warpgroup = false;  // a warpgroup takes up to 64 packed rows with wgmma (warpgroup_consumer.cuh)
    bool gathered = false;   // rows are copied one by one, from pages of any size
    int producer_warps = 1;
    int ctas_per_multiprocessor = 1;  // named after producer_warps: nvcc 13.0 gives a member that is left out before it no default
};

// Log2 of a power of two.
FLASHCORE_HOST_DEVICE constexpr int shift_of(int power) { return power == 1 ? 0 : 1 + shift_of(power / 2); }

constexpr int kBytesPerElement = 2;  // of query and output
constexpr int kMmaKeys = 16;        // keys that a warp takes at a time: K of one mma
constexpr int kRowTileRows = 16;    // query rows of a row tile: M of one mma
constexpr int kMergeRows = 8;       // rows that the warps merge at a time
constexpr int kMergePad = 4;        // padding of such a row, in floats
constexpr int kWorkQueueSlots = 4;  // splits that the producer may be ahead
constexpr int kSharedAlignment = 1024;
constexpr int kKeyScaleWarps = 3;   // copy the scales of single keys
constexpr int kWarpgroupRows = 64;    // M of wgmma
constexpr int kWarpgroupMaxHeadDim = 128;
constexpr int kWarpgroupTileShift = 2;  // log2 of their row tiles, one per warp

// Whether a split stays in shared memory while a warp attends to its keys, because registers are short.
FLASHCORE_HOST_DEVICE constexpr bool holds_split(const Config& config) {
    return !config.warpgroup && (config.ragged || config.fp8_cache || (config.local && config.head_dim == 256));
}
FLASHCORE_HOST_DEVICE constexpr bool holds_window(const Config& config) { return config.local && config.head_dim == 256; }
FLASHCORE_HOST_DEVICE constexpr int split_words(const Config& config) { return config.ragged ? 9 : 7; }
FLASHCORE_HOST_DEVICE constexpr int cache_bytes(const Config& config) { return config.fp8_cache ? 1 : kBytesPerElement; }
FLASHCORE_HOST_DEVICE constexpr int key_bytes(const Config& config) { return config.head_dim * cache_bytes(config); }

// Most KV heads of one work tile. If a key of one head has 128 bytes, memory delivers two heads together faster than apart.
FLASHCORE_HOST_DEVICE constexpr int max_heads(const Config& config) {
    return !config.warpgroup && key_bytes(config) < 256 ? 256 / key_bytes(config) : 1;
}
// Factors of the values that a warp keeps with its split, and the words of these and of its place in the work queue. At least two
// factors: with an odd number of words, g++ does not copy the split of the emulated kernels as if it were aligned to 16 bytes.
FLASHCORE_HOST_DEVICE constexpr int held_scales(const Config& config) {
    return !config.fp8_cache ? 0 : max_heads(config) > 2 ? max_heads(config) : 2;
}
FLASHCORE_HOST_DEVICE constexpr int held_fp8_words(const Config& config) { return config.fp8_cache ? held_scales(config) + 2 : 0; }
// Columns of swizzle atoms, and the elements of one.
FLASHCORE_HOST_DEVICE constexpr int atom_elements(const Config& config) {
    return config.head_dim < 128 / cache_bytes(config) ? config.head_dim : 128 / cache_bytes(config);
}
FLASHCORE_HOST_DEVICE constexpr int atom_columns(const Config& config) { return config.head_dim / atom_elements(config); }
// Whether a head dimension ends inside one of several columns. Then each is a box of its own, which TMA fills up with zeros.
FLASHCORE_HOST_DEVICE constexpr bool ends_inside_column(int columns, int elements, int head_dim) {
    return columns > 1 && head_dim % elements != 0;
}
// Of the ring. The last stage holds the scales of single keys, if there are any (key_scales.cuh).
FLASHCORE_HOST_DEVICE constexpr int used_stages(const Config& config) { return config.stages - (config.key_scales ? 1 : 0); }
FLASHCORE_HOST_DEVICE constexpr int threads(const Config& config) {
    return (config.consumer_warps + config.producer_warps + (config.key_scales ? kKeyScaleWarps : 0)) * 32;
}
FLASHCORE_HOST_DEVICE constexpr int tile_bytes(const Config& config) {
    return config.tile_keys * key_bytes(config);
}
FLASHCORE_HOST_DEVICE constexpr int merge_floats(const Config& config) {
    return config.warpgroup ? 0 : config.consumer_warps * kMergeRows * (config.head_dim + kMergePad);
}
// Most rows of a deterministic work tile that are folded in shared memory. More are folded in the workspace.
FLASHCORE_HOST_DEVICE constexpr int folded_rows_of(const Config& config) {
    return !config.deterministic ? 0 : config.head_dim == 256 ? kRowTileRows : 2 * kRowTileRows;
}
// Parts of a row, one pair of columns per lane. Each has a max and a sum of its own.
FLASHCORE_HOST_DEVICE constexpr int column_parts(const Config& config) { return config.head_dim / 64; }
FLASHCORE_HOST_DEVICE constexpr int statistics_of_row(const Config& config) { return config.deterministic ? column_parts(config) : 1; }
FLASHCORE_HOST_DEVICE constexpr int folded_bytes(const Config& config) {
    return folded_rows_of(config) * (config.head_dim + 2 * statistics_of_row(config)) * 4;
}
FLASHCORE_HOST_DEVICE constexpr int whole_kib(int bytes) {
    return (bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
}
FLASHCORE_HOST_DEVICE constexpr int shared_bytes(const Config& config) {
    const int statistics = config.warpgroup ? 0 : 2 * config.consumer_warps * kRowTileRows * 2 * 4;  // a max and a sum per row, per warp and in total
    const int slots = config.stages * 2 * 8 + kWorkQueueSlots * (2 * 8 + split_words(config) * 4);
    const int held = holds_split(config) ? config.consumer_warps * (split_words(config) + 4 + held_fp8_words(config) + (holds_window(config) ? 2 + kRowTileRows : 0)) * 4 : 0;
    const int bytes = 2 * config.stages * tile_bytes(config) + merge_floats(config) * 4 + statistics + slots + 3 * 4 + held;
    return whole_kib(bytes) + whole_kib(folded_bytes(config));
}

}  // namespace flashcore::decode
