// What the host decides for a problem: rows, cuts, grid and workspace. A pure function of the problem and the device. Host code.
#pragma once

#include <algorithm>
#include <cstdint>

#include "flashcore/decode/params.h"

namespace flashcore::decode {

constexpr int kSpared = 16;   // one multiprocessor in so many may be left idle
constexpr int kGapTiles = 4;  // that the end of a unit takes as long as

struct Problem {
    DType dtype;
    int head_dim;
    int64_t batch;
    int64_t heads;
    int64_t kv_heads;
    int64_t sq;
    int64_t room;  // keys of a sequence
    bool causal;
    bool deterministic;
    int splits;
};

struct Plan {
    Rows rows;
    Cut cut;
    int row_units;
    int ctas;
    int64_t tiles;            // of the whole line at most, if every sequence is full
    int64_t counters;         // that the launch uses
    int64_t workspace_bytes;  // in all
};

inline int log2_of(int power) {
    int shift = 0;
    while (1 << shift < power) ++shift;
    return shift;
}

// Enough row tiles for the rows, so that keys are read once: each warp has one, and the warps of a row tile divide the keys.
inline int row_tile_shift(const Config& config, int64_t rows) {
    int shift = 0;
    while (1 << shift < config.consumer_warps && kTileRows << shift < rows) ++shift;
    return shift;
}

inline int unit_heads(const Config& config, const Problem& problem, int64_t rows) {
    return rows <= kTileRows && problem.kv_heads % most_heads(config) == 0 ? most_heads(config) : 1;
}

inline int64_t piece_floats(const Config& config, const Rows& rows) {
    return static_cast<int64_t>(rows.per_unit) * (config.head_dim + 2);
}

// CTAs among which full sequences are shared out without cutting more units than must be: each CTA has whole units, or each unit
// whole CTAs. A few multiprocessors less cost memory little, and a cut costs microseconds. 0 if there is no such number.
inline int64_t even_ctas(int64_t units, int64_t most) {
    for (int64_t ctas = most; units > 0 && ctas > most - most / kSpared; --ctas) {
        if (units % ctas == 0 || ctas % units == 0) return ctas;
    }
    return 0;
}

// As many CTAs for each unit of a sequence, so that they go through the same keys side by side; all, if that left too many idle.
inline int64_t ctas_in_step(int64_t units, int64_t most) {
    return units > 0 && most % units < most / kSpared ? most - most % units : most;
}

inline Plan plan(const Config& config, const Problem& problem, int multiprocessors, int max_ctas) {
    const int64_t group = problem.kv_heads > 0 ? problem.heads / problem.kv_heads : 0;
    const int64_t count = problem.sq * group;
    Plan plan{};
    const int heads = unit_heads(config, problem, count);
    const int shift = heads > 1 ? log2_of(heads) : row_tile_shift(config, count);
    plan.rows = {
        heads,         static_cast<int>(problem.sq), static_cast<int>(group), static_cast<int>(count), kTileRows << shift, shift,
        problem.causal};
    plan.row_units = heads > 1 ? 1 : static_cast<int>((count + plan.rows.per_unit - 1) / plan.rows.per_unit);
    const int64_t units = problem.kv_heads / heads * plan.row_units;
    const int tile_keys = config.tile_keys / heads;
    const int64_t unit_tiles = std::max<int64_t>((problem.room + tile_keys - 1) / tile_keys, 1);
    plan.tiles = problem.batch * units * (unit_tiles + kGapTiles);
    const int64_t most = max_ctas > 0 ? std::min(max_ctas, multiprocessors) : multiprocessors;
    const int64_t all_units = problem.batch * units;
    const int64_t even = even_ctas(all_units, most);
    plan.ctas = static_cast<int>(std::min(even > 0 ? even : ctas_in_step(units, most), std::max<int64_t>(plan.tiles, 1)));
    const int pieces = problem.splits > 0 ? std::min(problem.splits, kMostForced) : problem.deterministic ? -1 : 0;
    // Where several CTAs have a unit, a gap would give them different numbers of its tiles.
    const int gap = all_units < even ? 0 : kGapTiles;
    plan.cut = {log2_of(tile_keys), static_cast<int>(units), static_cast<int>(problem.batch), pieces, 0, gap};
    if (pieces != 0) plan.cut.most = pieces_of(plan.cut, static_cast<int>(unit_tiles));
    plan.counters = pieces == 0 ? plan.ctas : all_units;
    const int64_t places = pieces == 0 ? 2 * plan.ctas : all_units * plan.cut.most;
    plan.workspace_bytes = kCounterBytes + places * piece_floats(config, plan.rows) * static_cast<int64_t>(sizeof(float));
    return plan;
}

}  // namespace flashcore::decode
