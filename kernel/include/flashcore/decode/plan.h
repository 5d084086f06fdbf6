// Host decisions for a problem: rows, split policy, grid and workspace. A pure function of the problem and the device. Host code.
#pragma once

#include <algorithm>
#include <cstdint>

#include "flashcore/decode/params.h"
#include "flashcore/decode/segments.h"

namespace flashcore::decode {

constexpr int kIdleFraction = 16;  // at most one of this many multiprocessors may stay idle
constexpr int kGapTiles = 4;       // cost of the end of a work tile, in tiles

struct Problem {
    DType dtype;
    int head_dim;
    int64_t batch;
    int64_t heads;
    int64_t kv_heads;
    int64_t sq;
    int64_t capacity;  // most keys of a sequence
    bool causal;
    bool deterministic;
    int splits;
};

struct Plan {
    PackedRows rows;
    SplitPolicy split_policy;
    int row_work_tiles;
    int ctas;
    int64_t tiles;            // length of the work list if every sequence is full
    int64_t counters;         // counters that the launch uses
    int64_t workspace_bytes;  // in total
};

inline int log2_of(int power) {
    int shift = 0;
    while (1 << shift < power) ++shift;
    return shift;
}

// Enough row tiles for all rows, so that keys are read once. Each warp has one row tile, and the warps of a row tile divide the
// keys.
inline int row_tile_shift(const Config& config, int64_t rows) {
    if (config.warpgroup) return kWarpgroupTileShift;
    int shift = 0;
    while (1 << shift < config.consumer_warps && kRowTileRows << shift < rows) ++shift;
    return shift;
}

inline int work_tile_heads(const Config& config, const Problem& problem, int64_t rows) {
    if (rows > kRowTileRows) return 1;
    int heads = max_heads(config);
    while (problem.kv_heads % heads != 0) heads /= 2;
    return heads;
}

inline int64_t partial_floats(const Config& config, const PackedRows& rows) {
    return static_cast<int64_t>(rows.per_work_tile) * (config.head_dim + 2 * statistics_of_row(config));
}

// A number of CTAs for which full sequences need no extra splits: each CTA gets whole work tiles, or each work tile whole CTAs. A
// few idle multiprocessors cost little bandwidth, and a split costs microseconds. Returns 0 if there is no such number.
inline int64_t even_ctas(int64_t work_tiles, int64_t cta_limit) {
    const int64_t too_few = cta_limit - cta_limit / kIdleFraction;
    if (work_tiles <= cta_limit) {  // whole CTAs for each, with one division
        const int64_t ctas = work_tiles > 0 ? cta_limit - cta_limit % work_tiles : 0;
        return ctas > too_few ? ctas : 0;
    }
    for (int64_t ctas = cta_limit; ctas > too_few; --ctas) {
        if (work_tiles % ctas == 0) return ctas;
    }
    return 0;
}

// The same number of CTAs for each work tile of a sequence, so that they read the same keys at the same time. All CTAs if that
// left too many idle.
inline int64_t ctas_per_work_tile(int64_t work_tiles, int64_t cta_limit) {
    return work_tiles > 0 && cta_limit % work_tiles < cta_limit / kIdleFraction ? cta_limit - cta_limit % work_tiles : cta_limit;
}

inline Plan plan(const Config& config, const Problem& problem, int multiprocessors, int max_ctas) {
    const int64_t group = problem.kv_heads > 0 ? problem.heads / problem.kv_heads : 0;
    const int64_t count = problem.sq * group;
    Plan plan{};
    const int heads = work_tile_heads(config, problem, count);
    const int shift = heads > 1 ? log2_of(heads) : row_tile_shift(config, count);
    plan.rows = {heads,
                 static_cast<int>(problem.sq),
                 static_cast<int>(group),
                 static_cast<int>(count),
                 kRowTileRows << shift,
                 shift,
                 problem.causal};
    plan.row_work_tiles = heads > 1 ? 1 : static_cast<int>((count + plan.rows.per_work_tile - 1) / plan.rows.per_work_tile);
    const int64_t work_tiles = problem.kv_heads / heads * plan.row_work_tiles;
    const int tile_keys = config.tile_keys / heads;
    const int64_t work_tile_tiles = std::max<int64_t>((problem.capacity + tile_keys - 1) / tile_keys, 1);
    plan.tiles = problem.batch * work_tiles * (work_tile_tiles + kGapTiles);
    const int64_t resident = static_cast<int64_t>(multiprocessors) * config.ctas_per_multiprocessor;
    const int64_t cta_limit = max_ctas > 0 ? std::min<int64_t>(max_ctas, resident) : resident;
    const int64_t all_work_tiles = problem.batch * work_tiles;
    const int64_t even = even_ctas(all_work_tiles, cta_limit);
    plan.ctas =
        static_cast<int>(std::min(even > 0 ? even : ctas_per_work_tile(work_tiles, cta_limit), std::max<int64_t>(plan.tiles, 1)));
    const int splits = problem.splits > 0 ? std::min(problem.splits, kMaxForcedSplits) : problem.deterministic ? -1 : 0;
    // if several CTAs share a work tile, a gap would give them different numbers of tiles. Packed sequences differ anyway
    const int gap = all_work_tiles < even && !config.ragged ? 0 : kGapTiles;
    plan.split_policy = {log2_of(tile_keys), static_cast<int>(work_tiles), static_cast<int>(problem.batch), splits, 0, gap};
    if (config.deterministic) {
        const int64_t range = (plan.tiles + plan.ctas - 1) / plan.ctas >> least_segment_shift(plan.split_policy);
        const int most = most_segments(plan.split_policy, static_cast<int>(work_tile_tiles));
        plan.split_policy.max_splits = 1 + static_cast<int>(std::min<int64_t>(most, range + 1));
        plan.counters = plan.ctas;
        plan.workspace_bytes = kCounterBytes + static_cast<int64_t>(plan.ctas) * plan.split_policy.max_splits *
                                                   partial_floats(config, plan.rows) * static_cast<int64_t>(sizeof(float));
        return plan;
    }
    if (splits != 0) plan.split_policy.max_splits = split_count(plan.split_policy, static_cast<int>(work_tile_tiles));
    plan.counters = splits == 0 ? plan.ctas : all_work_tiles;
    const int64_t partials = splits == 0 ? 2 * plan.ctas : all_work_tiles * plan.split_policy.max_splits;
    plan.workspace_bytes = kCounterBytes + partials * partial_floats(config, plan.rows) * static_cast<int64_t>(sizeof(float));
    return plan;
}

}  // namespace flashcore::decode
