// The query rows of a consumer warp of an E4M3 cache, in fp16 as B operand. Part of fp8_consumer.cuh.
#pragma once

#include "flashcore/decode/fp8_merge.cuh"
#include "flashcore/decode/packed_rows.cuh"
#include "flashcore/ptx/math.cuh"

namespace flashcore::decode {

// kHalves: eights of rows of a row tile.
template <class Tuning, int kHalves>
struct Fp8Rows {
    static constexpr Config kConfig = Tuning::config;
    static constexpr int kKSteps = kConfig.head_dim / kMmaKeys;
    static constexpr bool kOwnFactors = kConfig.key_scales || kConfig.dtype == DType::kBf16;  // the other rows of a head share one

    uint32_t query[kHalves][kKSteps][2];      // from `fetch` to `convert` as loaded, E4M3 in the first word of each two
    float factors[kOwnFactors ? kHalves * kFp8LaneRows : 1];  // of the scores of a lane's rows
    uint32_t hidden;  // how many of the last keys each of them does not see, in four bits: registers are short

    __device__ __forceinline__ float log2(int half, int r) const { return factors[kOwnFactors ? half * kFp8LaneRows + r : 0]; }
    __device__ __forceinline__ int hidden_of(int half, int r) const { return hidden >> 4 * (half * kFp8LaneRows + r) & 15; }

    // A lane loads the row of its quad, with the columns in the order of fp8.cuh. Rows that do not exist are zero.
    __device__ __forceinline__ void fetch(int half, const ParamsOf<Tuning>& params, const PackedRows& rows, const WorkTile& work_tile,
                                          int tile_row, int lane) {
        const int row = work_tile.first_row + tile_row + half * kMergeRows + lane / sm90::kQuadLanes;
        const bool exists = rows.exists(row);
        const int element_bytes = bytes_of(query_type<Tuning>(params));
        const auto* const words = reinterpret_cast<const uint32_t*>(query_row(params, rows, work_tile, row, element_bytes));
        const int words_of_four = element_bytes;
#pragma unroll
        for (int k_step = 0; k_step < kKSteps; ++k_step) {
            const int four = k_step * (kFp8UnitColumns / 4) + lane % sm90::kQuadLanes;
            const bool inside = exists && k_step * kFp8UnitColumns < params.head_dim;
#pragma unroll
            for (int i = 0; i < kMostWords; ++i) {
                query[half][k_step][i] = inside && i < words_of_four ? __ldg(words + words_of_four * four + i) : 0;
            }
        }
    }

    // Turns the rows into the B operand, and gets the factors of the rows of this lane's columns. `hidden` must be 0 before.
    __device__ __forceinline__ void convert(int half, const ParamsOf<Tuning>& params, const PackedRows& rows, int first_row,
                                            float descale, int lane) {
        const float log2 = convert_row(params, descale, query[half]);
#pragma unroll
        for (int r = 0; r < kFp8LaneRows; ++r) {
            const int own = lane % sm90::kQuadLanes * kFp8LaneRows + r;
            const int index = half * kFp8LaneRows + r;
            factors[kOwnFactors ? index : 0] = __shfl_sync(sm90::kFullWarpMask, log2, own * sm90::kQuadLanes);
            const int row = rows.row_of(first_row + half * kMergeRows + own);
            const int unseen = rows.causal ? max_int(rows.sq - 1 - rows.query_of(row), 0) : 0;
            hidden |= static_cast<uint32_t>(unseen) << 4 * index;
        }
    }

private:
    static constexpr int kMostWords = kConfig.key_scales ? 2 : bytes_of(kConfig.dtype);  // of four columns

    // Brings a row of bf16 into the range of fp16 by a power of two, and returns that.
    __device__ __forceinline__ static float into_range(uint32_t (&query)[kKSteps][2]) {
        float largest = 0.0f;
#pragma unroll
        for (int i = 0; i < 2 * kKSteps; ++i) {
            const uint32_t pair = query[i / 2][i % 2];
            largest = fmaxf(largest, fabsf(__uint_as_float(pair << 16)));
            largest = fmaxf(largest, fabsf(__uint_as_float(pair & 0xFFFF0000u)));
        }
        const float factor = fp16_range_factor(sm90::quad_max(largest));
#pragma unroll
        for (int i = 0; i < 2 * kKSteps; ++i) {
            uint32_t& pair = query[i / 2][i % 2];
            pair = ptx::pack<__half>(__uint_as_float(pair << 16) * factor, __uint_as_float(pair & 0xFFFF0000u) * factor);
        }
        return factor;
    }

    // Returns the factor of a row's scores, which takes back that of `into_range`.
    __device__ __forceinline__ static float convert_row(const ParamsOf<Tuning>& params, float descale, uint32_t (&query)[kKSteps][2]) {
        float factor = 1.0f;
        const DType dtype = query_type<Tuning>(params);
        if (dtype == DType::kBf16) factor = into_range(query);
        if (dtype == DType::kE4m3) {
#pragma unroll
            for (int k_step = 0; k_step < kKSteps; ++k_step) {
                const uint32_t four = query[k_step][0];
                query[k_step][0] = fp8_pair_to_fp16(four);
                query[k_step][1] = fp8_high_pair_to_fp16(four);
            }
        }
        const ScoreFactor scale = score_factor(params, __fdiv_rn(descale, factor));
        const __half2 sign = __float2half2_rn(scale.sign);
#pragma unroll
        for (int i = 0; i < 2 * kKSteps; ++i) {
            auto& columns = reinterpret_cast<__half2&>(query[i / 2][i % 2]);
            columns = __hmul2(columns, sign);
        }
        return scale.log2;
    }
};

}  // namespace flashcore::decode
