// Host decisions for a problem: variant, schedule and grid. Pure functions of the problem and the device. Host code, except that
// the device computes the group size of every sequence of a varlen batch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "flashcore/attention/params.h"
#include "flashcore/core/local_abi.h"

namespace flashcore::attention {

constexpr int64_t kTileLimit = int64_t{1} << 30;  // so that a tile index plus the grid does not overflow an int

struct Problem {
    DType dtype;
    bool causal;
    int64_t head_dim;
    int64_t sequences;  // batch * heads
    int64_t sq;
    int64_t sk;
    bool paged = false;
    bool local = false;  // then `causal` says whether later queries see more keys
    bool softcap = false;
};

struct Plan {
    Schedule schedule;
    int ctas;
};

// Bytes of keys and values of interleaved sequences. Short sequences are read again from L2 when their next tile comes (50 or 60
// MB on Hopper, minus what streams through it). The tiles of long ones run at the same time and share what they read at that
// moment, so more of them may be in flight. Measured: kernel/TUNING-d128-d256.md.
constexpr int64_t kShortKeys = 1024;
constexpr int64_t kLongKeys = 4096;
constexpr int64_t kVeryLongKeys = 16384;
FLASHCORE_HOST_DEVICE constexpr int64_t interleaved_bytes(int64_t sk) {
    constexpr int64_t kMegabyte = int64_t{1} << 20;
    return (sk < kShortKeys ? 16 : sk < kLongKeys ? 32 : sk < kVeryLongKeys ? 64 : 128) * kMegabyte;
}

// Without a mask all tiles take equally long. Then one sequence follows the other, so that its tiles share its keys. Under a
// causal mask several sequences are interleaved, longest tiles first.
FLASHCORE_HOST_DEVICE constexpr int64_t group_size(bool causal, int head_dim, int64_t sk, int64_t sequences) {
    if (!causal) return 1;
    const int64_t size = interleaved_bytes(sk) / (2 * (sk > 1 ? sk : 1) * head_dim * kBytesPerElement);
    return size < 1 ? 1 : size > sequences ? sequences : size;
}

// Columns beyond the head dimension are read as zeros and not written, so a variant also serves smaller head dimensions. In pages
// the columns of the next head follow.
inline bool serves(const Config& config, const Problem& problem) {
    return config.head_dim >= problem.head_dim && config.dtype == problem.dtype && (problem.local || config.causal == problem.causal) &&
           config.paged_kv == problem.paged && (!problem.paged || config.head_dim == problem.head_dim) &&
           config.local == problem.local && config.softcap == problem.softcap;
}

// Chooses a local variant.
inline void make_local_problem(const FlashcoreLocal& args, Problem& problem) {
    if (args.enabled == 0) return;
    problem.local = true;
    problem.softcap = args.softcap > 0.0f;
    const bool sees_all_before = args.window_left < 0 || args.window_left >= problem.sk - 1;
    const bool sees_all_after = !problem.causal && (args.window_right < 0 || args.window_right >= problem.sq - 1);
    problem.causal = sees_all_before && !sees_all_after && args.chunk == 0;
}

// Returns the index of the variant with the least padding, or -1 if no variant serves the problem.
inline int choose_variant(const AttentionVariant* const* variants, int count, const Problem& problem) {
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

// The largest number of persistent CTAs of a launch.
inline int64_t persistent_ctas(int multiprocessors, int cap) {
    return cap > 0 ? std::min(cap, multiprocessors) : multiprocessors;
}

// The caller has checked that the number of tiles fits in an int.
inline Plan plan(const Config& config, const Problem& problem, int multiprocessors, int max_ctas) {
    const int64_t rows = row_tiles(config, problem);
    const int64_t tiles = rows * problem.sequences;
    const Schedule schedule{static_cast<int>(tiles), static_cast<int>(rows), static_cast<int>(problem.sequences),
                            static_cast<int>(group_size(problem.causal, config.head_dim, problem.sk, problem.sequences))};
    return {schedule, static_cast<int>(std::min(tiles, persistent_ctas(multiprocessors, max_ctas)))};
}

}  // namespace flashcore::attention
