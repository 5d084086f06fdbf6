// How a consumer warp loads its query rows as the A operand of mma: 16 rows of a split, two per lane. Part of consumer.cuh.
#pragma once

#include "flashcore/decode/consumer.cuh"

namespace flashcore::decode {

template <class Tuning>
__device__ __forceinline__ void Consumer<Tuning>::load_query(const SplitOf<Tuning>& split) {
    const PackedRows rows = packed_rows<Tuning>(params_, split);
    const WorkTile work_tile(params_, rows, split);
    const int first_row = work_tile.first_row + rows.tile_of(warp_) * kRowTileRows + lane_ / sm90::kQuadLanes;
#pragma unroll
    for (int r = 0; r < sm90::kRowsPerLane; ++r) {
        const int row = first_row + r * sm90::kCoreMatrixRows;
        if constexpr (kConfig.local) {
            place_row(split.keys - rows.sq + rows.query_of(rows.row_of(row)), r);
        } else {
            hidden_[r] = rows.causal ? rows.sq - 1 - rows.query_of(rows.row_of(row)) : 0;
        }
        load_row(reinterpret_cast<const uint32_t*>(query_row<uint16_t>(params_, rows, work_tile, row)), rows.exists(row), r);
    }
}

// Loads a row as the A operand. Rows that do not exist are zero. So are columns beyond the head dimension.
template <class Tuning>
__device__ __forceinline__ void Consumer<Tuning>::load_row(const uint32_t* row, bool exists, int r) {
    if (params_.head_dim == kConfig.head_dim) {
        load_words<true>(row, exists, r);
    } else {
        load_words<false>(row, exists, r);
    }
}

template <class Tuning>
template <bool kAll>
__device__ __forceinline__ void Consumer<Tuning>::load_words(const uint32_t* row, bool exists, int r) {
#pragma unroll
    for (int k_step = 0; k_step < kKSteps; ++k_step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int word = k_step * (Traits::kMmaK / 2) + half * 4 + lane_ % sm90::kQuadLanes;
            const bool inside = kAll || k_step * Traits::kMmaK + half * 8 < params_.head_dim;
            query_[k_step][half * 2 + r] = exists && inside ? __ldg(row + word) : 0;
        }
    }
}

}  // namespace flashcore::decode
