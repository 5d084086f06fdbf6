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
    static constexpr bool kOwnFactors = kConfig.dtype == DType::kBf16;  // the other rows of a head share one
    using Unit = std::conditional_t<kConfig.dtype == DType::kE4m3, uint8_t, uint16_t>;

    uint32_t query[kHalves][kKSteps][2];
    float factors[kOwnFactors ? kHalves * kFp8LaneRows : 1];  // of the scores of a lane's rows
    uint32_t hidden = 0;  // how many of the last keys each of them does not see, in four bits: registers are short

    __device__ __forceinline__ float log2(int half, int r) const { return factors[kOwnFactors ? half * kFp8LaneRows + r : 0]; }
    __device__ __forceinline__ int hidden_of(int half, int r) const { return hidden >> 4 * (half * kFp8LaneRows + r) & 15; }

    // A lane loads the row of its quad, and gets the factors of the rows of its columns.
    __device__ __forceinline__ void load(const Fp8Params& params, const PackedRows& rows, const WorkTile& work_tile, int first_row,
                                         float descale, int lane) {
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            const int first = work_tile.first_row + first_row + half * kMergeRows;
            const int row = first + lane / sm90::kQuadLanes;
            const float log2 =
                load_row(params, query_row<Unit>(params, rows, work_tile, row), rows.exists(row), descale, lane, query[half]);
#pragma unroll
            for (int r = 0; r < kFp8LaneRows; ++r) {
                const int own = lane % sm90::kQuadLanes * kFp8LaneRows + r;
                const int index = half * kFp8LaneRows + r;
                factors[kOwnFactors ? index : 0] = __shfl_sync(sm90::kFullWarpMask, log2, own * sm90::kQuadLanes);
                const int unseen = rows.causal ? max_int(rows.sq - 1 - rows.query_of(rows.row_of(first + own)), 0) : 0;
                hidden |= static_cast<uint32_t>(unseen) << 4 * index;
            }
        }
    }

private:
    // Reads a row with the columns in the order of fp8.cuh, E4M3 as fp16. Returns the largest magnitude of this lane if bf16.
    __device__ __forceinline__ static float read_row(const void* row, bool exists, int lane, uint32_t (&query)[kKSteps][2]) {
        float largest = 0.0f;
#pragma unroll
        for (int k_step = 0; k_step < kKSteps; ++k_step) {
            const int four = k_step * (kFp8UnitColumns / 4) + lane % sm90::kQuadLanes;
            if constexpr (kConfig.dtype == DType::kE4m3) {
                const uint32_t read = exists ? __ldg(static_cast<const uint32_t*>(row) + four) : 0;
                query[k_step][0] = fp8_pair_to_fp16(read);
                query[k_step][1] = fp8_high_pair_to_fp16(read);
            } else {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const uint32_t pair = exists ? __ldg(static_cast<const uint32_t*>(row) + 2 * four + half) : 0;
                    query[k_step][half] = pair;
                    if constexpr (kConfig.dtype == DType::kBf16) {
                        largest = fmaxf(largest, fabsf(__uint_as_float(pair << 16)));
                        largest = fmaxf(largest, fabsf(__uint_as_float(pair & 0xFFFF0000u)));
                    }
                }
            }
        }
        return largest;
    }

    // Loads a row of the B operand and returns the factor of its scores. A bf16 row is brought into the range of fp16 by a power of
    // two, which that factor takes back.
    __device__ __forceinline__ static float load_row(const Fp8Params& params, const void* row, bool exists, float descale, int lane,
                                                     uint32_t (&query)[kKSteps][2]) {
        const float largest = read_row(row, exists, lane, query);
        float factor = 1.0f;
        if constexpr (kConfig.dtype == DType::kBf16) {
            factor = fp16_range_factor(sm90::quad_max(largest));
#pragma unroll
            for (auto& step : query) {
#pragma unroll
                for (uint32_t& pair : step) {
                    pair = ptx::pack<__half>(__uint_as_float(pair << 16) * factor, __uint_as_float(pair & 0xFFFF0000u) * factor);
                }
            }
        }
        const ScoreFactor scale = score_factor(params, __fdiv_rn(descale, factor));
        const __half2 sign = __float2half2_rn(scale.sign);
#pragma unroll
        for (auto& step : query) {
#pragma unroll
            for (uint32_t& pair : step) {
                auto& columns = reinterpret_cast<__half2&>(pair);
                columns = __hmul2(columns, sign);
            }
        }
        return scale.log2;
    }
};

}  // namespace flashcore::decode
