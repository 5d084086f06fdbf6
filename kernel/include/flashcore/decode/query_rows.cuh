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
        if constexpr (kFp8) {
            load_scaled_row(rows, work_tile, row, r);
        } else {
            load_row(reinterpret_cast<const uint32_t*>(query_row<uint16_t>(params_, rows, work_tile, row)), rows.exists(row),
                     r);
        }
    }
}

// Loads a row as the A operand in fp16, with the columns in the order of fp8.cuh. A bf16 row is brought into the range of
// fp16 by a power of two, which the scale of the scores takes back.
template <class Tuning>
__device__ __forceinline__ void Consumer<Tuning>::load_scaled_row(const PackedRows& rows, const WorkTile& work_tile, int row, int r) {
    using Word = std::conditional_t<kConfig.dtype == DType::kE4m3, uint16_t, uint32_t>;  // two columns
    using Unit = std::conditional_t<kConfig.dtype == DType::kE4m3, uint8_t, uint16_t>;
    const auto* const words = reinterpret_cast<const Word*>(query_row<Unit>(params_, rows, work_tile, row));
    const bool exists = rows.exists(row);
    float largest = 0.0f;
#pragma unroll
    for (int k_step = 0; k_step < kKSteps; ++k_step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int word = k_step * (kFp8UnitColumns / 2) + lane_ % sm90::kQuadLanes * 2 + half;
            const uint32_t pair = exists ? __ldg(words + word) : 0;
            query_[k_step][half * 2 + r] = kConfig.dtype == DType::kE4m3 ? fp8_pair_to_fp16(pair) : pair;
            if constexpr (kConfig.dtype == DType::kBf16) {
                largest = fmaxf(largest, fmaxf(fabsf(__uint_as_float(pair << 16)), fabsf(__uint_as_float(pair & 0xFFFF0000u))));
            }
        }
    }
    float factor = 1.0f;
    if constexpr (kConfig.dtype == DType::kBf16) {
        factor = fp16_range_factor(sm90::quad_max(largest));
#pragma unroll
        for (int k_step = 0; k_step < kKSteps; ++k_step) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                uint32_t& pair = query_[k_step][half * 2 + r];
                pair = ptx::pack<__half>(__uint_as_float(pair << 16) * factor, __uint_as_float(pair & 0xFFFF0000u) * factor);
            }
        }
    }
    const int head = work_tile.kv_head + rows.head_of(row);
    const float descale = scale_of(params_.k_scale, work_tile.sequence, head) * scale_of(params_.q_scale, work_tile.sequence, head);
    const ScoreFactor scale = score_factor(params_, __fdiv_rn(descale, factor));
    row_scales_.log2[r] = scale.log2;
    const __half2 sign = __float2half2_rn(scale.sign);
#pragma unroll
    for (int k_step = 0; k_step < kKSteps; ++k_step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            auto& pair = reinterpret_cast<__half2&>(query_[k_step][half * 2 + r]);
            pair = __hmul2(pair, sign);
        }
    }
}

// Loads a row as the A operand. Rows that do not exist are zero.
template <class Tuning>
__device__ __forceinline__ void Consumer<Tuning>::load_row(const uint32_t* row, bool exists, int r) {
#pragma unroll
    for (int k_step = 0; k_step < kKSteps; ++k_step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int word = k_step * (Traits::kMmaK / 2) + half * 4 + lane_ % sm90::kQuadLanes;
            query_[k_step][half * 2 + r] = exists ? __ldg(row + word) : 0;
        }
    }
}

}  // namespace flashcore::decode
