// What the host decides for a problem: variant, schedule and grid. A pure function of the problem and the device. Host code.
#pragma once

#include <algorithm>
#include <cstdint>

#include "flashcore/attention/params.h"

namespace flashcore::attention {

struct Problem {
    DType dtype;
    bool causal;
    int head_dim;
    int64_t sequences;  // batch * heads
    int64_t sq;
    int64_t sk;
};

struct Plan {
    Schedule schedule;
    int ctas;
};

// Bytes of keys and values of the sequences that are interleaved. Short sequences are read again from L2 (50 or 60 MB on Hopper,
// less what streams through it) when their next tile comes; the tiles of long ones run side by side and share what they read
// at that moment, so that more of them may be in flight. Measured: kernel/TUNING-d128-d256.md.
constexpr int64_t kShortKeys = 1024;
constexpr int64_t kLongKeys = 4096;
constexpr int64_t kVeryLongKeys = 16384;
inline int64_t interleaved_bytes(int64_t sk) {
    constexpr int64_t kMegabyte = int64_t{1} << 20;
    return (sk < kShortKeys ? 16 : sk < kLongKeys ? 32 : sk < kVeryLongKeys ? 64 : 128) * kMegabyte;
}

// Columns of a tile beyond the head dimension are read as zeros and not written, so a variant serves smaller ones too.
inline bool serves(const Config& config, const Problem& problem) {
    return config.head_dim >= problem.head_dim && config.dtype == problem.dtype && config.causal == problem.causal;
}

// The number of the variant with the least padding for a problem. -1: none serves it.
inline int choose(const AttentionVariant* const* variants, int count, const Problem& problem) {
    int best = -1;
    for (int i = 0; i < count; ++i) {
        if (!serves(variants[i]->config, problem)) continue;
        if (best < 0 || variants[i]->config.head_dim < variants[best]->config.head_dim) best = i;
    }
    return best;
}

inline int64_t row_tiles(const Config& config, const Problem& problem) {
    return (problem.sq + config.tile_m - 1) / config.tile_m;
}

// Without a mask all tiles are equally long, and the tiles of one sequence share its keys: one sequence after the other. Under
// a causal mask several sequences are interleaved, longest tiles first.
inline int64_t group_size(const Config& config, const Problem& problem) {
    if (!config.causal) return 1;
    const int64_t bytes = 2 * std::max<int64_t>(problem.sk, 1) * config.head_dim * kBytesPerElement;
    return std::clamp<int64_t>(interleaved_bytes(problem.sk) / bytes, 1, problem.sequences);
}

// The caller has checked that the number of tiles fits in an int.
inline Plan plan(const Config& config, const Problem& problem, int multiprocessors, int max_ctas) {
    const int64_t rows = row_tiles(config, problem);
    const int64_t tiles = rows * problem.sequences;
    const int64_t limit = max_ctas > 0 ? std::min(max_ctas, multiprocessors) : multiprocessors;
    const Schedule schedule{static_cast<int>(tiles), static_cast<int>(rows), static_cast<int>(problem.sequences),
                            static_cast<int>(group_size(config, problem))};
    return {schedule, static_cast<int>(std::min(tiles, limit))};
}

}  // namespace flashcore::attention
