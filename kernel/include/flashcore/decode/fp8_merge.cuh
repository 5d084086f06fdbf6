// What a consumer warp of an E4M3 cache keeps of its rows, and how the warps store it for the merge.
//
// Keys and columns of values are the 16 rows of each mma, query rows its eight columns. So eight query rows need half of the mma
// that 16 need. Lane q of a quad has the query rows 2q and 2q + 1 of each eight, as that lane of every other quad does.
#pragma once

#include "flashcore/decode/merge.cuh"

namespace flashcore::decode {

constexpr int kFp8LaneRows = 2;  // query rows of a lane, of each eight

// Of 8 * kHalves rows.
template <int kHeadDim, int kHalves>
struct Fp8State {
    static constexpr int kUnits = kHeadDim / kFp8UnitColumns;
    float row_max[kHalves][kFp8LaneRows];
    float row_sum[kHalves][kFp8LaneRows] = {};
    float output[kHalves][kUnits][4] = {};  // an even and an odd column of a unit of 16, each of two rows

    __device__ __forceinline__ Fp8State() {
#pragma unroll
        for (auto& half : row_max) half[0] = half[1] = sm90::minus_infinity();
    }
};

// Over the lanes with the same query rows.
__device__ __forceinline__ float column_max(float value) {
#pragma unroll
    for (int lane = sm90::kQuadLanes; lane < sm90::kWarpThreads; lane *= 2) {
        value = fmaxf(value, __shfl_xor_sync(sm90::kFullWarpMask, value, lane));
    }
    return value;
}
__device__ __forceinline__ float column_sum(float value) {
#pragma unroll
    for (int lane = sm90::kQuadLanes; lane < sm90::kWarpThreads; lane *= 2) {
        value += __shfl_xor_sync(sm90::kFullWarpMask, value, lane);
    }
    return value;
}

template <class Tuning, int kHalves>
class Fp8Merge : public Merge<Tuning> {
    using Base = Merge<Tuning>;
    using Base::barrier, Base::kConfig, Base::kPairs, Base::partial_of, Base::partial_pairs, Base::weight;
    using Base::params_, Base::shared_, Base::rows_, Base::work_tile_, Base::fixup_, Base::warp_, Base::lane_;
    using typename Base::Element;
    using State = Fp8State<kConfig.head_dim, kHalves>;

    // A lane takes some neighbouring columns of a row, at D=256 twice.
    static constexpr int kColumns = kConfig.head_dim / sm90::kWarpThreads;
    static constexpr int kVectorColumns = min_int(kColumns, 4);
    static constexpr int kVectors = kColumns / kVectorColumns;
    struct alignas(kVectorColumns * sizeof(float)) Vector {
        float x[kVectorColumns];
    };
    struct Row {
        float2 statistics;  // max and sum
        Vector sums[kVectors];
    };

public:
    using Base::Base;

    // As Merge::run. A warp leaves its sums relative to its own max, so it need not know that of the others before.
    __device__ __forceinline__ void run(const State& state) const {
#pragma unroll 1
        for (int pass = 0;; ++pass) {
            const bool over_splits = pass == kHalves;
            if (!over_splits) {
                barrier();  // all warps have read what the others left before
                if (pass == 0) {
                    leave<0>(state);
                } else {
                    leave<kHalves - 1>(state);
                }
                barrier();
            }
            add_up(pass, over_splits);
            if (over_splits) return;
            if (pass + 1 == kHalves && (fixup_.split_count == 1 || !this->is_last())) return;
        }
    }

private:
    // Where a lane's columns begin.
    __device__ __forceinline__ int column_of(int vector) const {
        return (vector * sm90::kWarpThreads + lane_) * kVectorColumns;
    }

    template <int kHalf>
    __device__ __forceinline__ void leave(const State& state) const {
        const float sums[kFp8LaneRows] = {column_sum(state.row_sum[kHalf][0]), column_sum(state.row_sum[kHalf][1])};
        const int lane = kConfig.head_dim <= 128 ? lane_ : __shfl_sync(sm90::kFullWarpMask, lane_, lane_);  // or D=256 spills addresses
        const int quad = lane / sm90::kQuadLanes;
        const int first_row = lane % sm90::kQuadLanes * kFp8LaneRows;  // among eight
        if (quad == 0) {
            *reinterpret_cast<float4*>(&shared_.statistics[warp_][first_row]) = {state.row_max[kHalf][0], sums[0],
                                                                                state.row_max[kHalf][1], sums[1]};
        }
        const int row = work_tile_.first_row + rows_.tile_of(warp_) * kRowTileRows + kHalf * kMergeRows + first_row;
#pragma unroll
        for (int r = 0; r < kFp8LaneRows; ++r) {
            if (!rows_.exists(row + r)) continue;
            auto* const columns = reinterpret_cast<float2*>(shared_.sums[warp_][first_row + r]) + quad;
#pragma unroll
            for (int unit = 0; unit < State::kUnits; ++unit) {
                const float* output = state.output[kHalf][unit];
                columns[unit * (kFp8UnitColumns / 2)] = {output[r], output[2 + r]};
            }
        }
    }

    // Each warp takes a row at a time, of both heads if the work tile has two. It stores a finished row to the output, and a
    // partial row to the workspace.
    __device__ __forceinline__ void add_up(int pass, bool over_splits) const {
        const int first = over_splits ? 0 : pass * kMergeRows;
        const int shift = sm90::kWarpThreads - __clz(min_int(rows_.count - first, over_splits ? kRowTileRows : kMergeRows) - 1);
#pragma unroll 1
        for (int item = warp_;; item += kConfig.consumer_warps) {
            const int row_tile = item >> shift;
            if (row_tile >= rows_.tiles()) break;
            const int row = row_tile * kRowTileRows + first + (item & ((1 << shift) - 1));
            if (!rows_.exists(work_tile_.first_row + row)) continue;
            const Row sums = over_splits ? combine_splits(row) : combine_warps(row);
            if (over_splits || fixup_.split_count == 1) {
                store(row, sums);
            } else {
                float2* const partial = partial_of(fixup_.split_index);
                auto* const columns = reinterpret_cast<float*>(partial + rows_.per_work_tile + row * kPairs);
#pragma unroll
                for (int i = 0; i < kVectors; ++i) *reinterpret_cast<Vector*>(columns + column_of(i)) = sums.sums[i];
                if (lane_ == 0) partial[row] = sums.statistics;
            }
        }
    }

    // Adds in the order of the warps of this row tile. Each lane computes the weight of one of them.
    __device__ __forceinline__ Row combine_warps(int row) const {
        constexpr int kBatch = min_int(kConfig.consumer_warps, 4);
        const int row_tile = row / kRowTileRows, row_in_group = row % kMergeRows;
        const int lane_warp = lane_ % kConfig.consumer_warps;
        float2 own = {sm90::minus_infinity(), 0.0f};
        if (rows_.tile_of(lane_warp) == row_tile) own = shared_.statistics[lane_warp][row_in_group];
        float row_max = own.x;
#pragma unroll
        for (int i = 1; i < kConfig.consumer_warps; i *= 2) {
            row_max = fmaxf(row_max, __shfl_xor_sync(sm90::kFullWarpMask, row_max, i));
        }
        const float factor = weight(own.x, finite_max(row_max));
        float sum = own.y * factor;
#pragma unroll
        for (int i = 1; i < kConfig.consumer_warps; i *= 2) sum += __shfl_xor_sync(sm90::kFullWarpMask, sum, i);
        Row result = {{row_max, sum}, {}};
#pragma unroll 1
        for (int first = row_tile; first < kConfig.consumer_warps; first += kBatch << rows_.tile_shift) {
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
                const int warp = first + (i << rows_.tile_shift);
                const float warp_factor = __shfl_sync(sm90::kFullWarpMask, factor, warp);
                if (warp >= kConfig.consumer_warps) continue;
#pragma unroll
                for (int vector = 0; vector < kVectors; ++vector) {
                    const float* const columns = shared_.sums[warp][row_in_group] + column_of(vector);
                    add(result.sums[vector], *reinterpret_cast<const Vector*>(columns), warp_factor);
                }
            }
        }
        return result;
    }

    __device__ __forceinline__ static void add(Vector& to, const Vector& from, float factor) {
#pragma unroll
        for (int i = 0; i < kVectorColumns; ++i) to.x[i] = fmaf(from.x[i], factor, to.x[i]);
    }

    // Adds in the order of the splits. The lanes load the statistics of the splits while the sums load.
    __device__ __forceinline__ Row combine_splits(int row) const {
        constexpr int kBatch = 32 / kColumns;
        const float2* partial = partial_of(0) + row;
        Row result = {{sm90::minus_infinity(), 0.0f}, {}};
#pragma unroll 1
        for (int begin = 0; begin < fixup_.split_count; begin += kBatch) {
            const int count = min_int(fixup_.split_count - begin, kBatch);
            const auto* const sums = reinterpret_cast<const float*>(partial + rows_.per_work_tile + row * (kPairs - 1));
            const float2 statistics =
                lane_ < count ? __ldcg(partial + lane_ * partial_pairs()) : float2{sm90::minus_infinity(), 0.0f};
            Vector values[kBatch][kVectors];
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
#pragma unroll
                for (int vector = 0; vector < kVectors; ++vector) {
                    values[i][vector] = i < count ? load(sums + i * 2 * partial_pairs() + column_of(vector)) : Vector{};
                }
            }
            const float row_max = fmaxf(result.statistics.x, sm90::warp_max(statistics.x));
            const float before = weight(result.statistics.x, finite_max(row_max));
            const float factor = weight(statistics.x, finite_max(row_max));
            result.statistics = {row_max, result.statistics.y * before + sm90::warp_sum(statistics.y * factor)};
#pragma unroll
            for (int vector = 0; vector < kVectors; ++vector) {
                Vector total = {};
                add(total, result.sums[vector], before);
                result.sums[vector] = total;
            }
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
                const float split_factor = __shfl_sync(sm90::kFullWarpMask, factor, i);
#pragma unroll
                for (int vector = 0; vector < kVectors; ++vector) add(result.sums[vector], values[i][vector], split_factor);
            }
            partial += kBatch * partial_pairs();
        }
        return result;
    }

    __device__ __forceinline__ static Vector load(const float* columns) {
        Vector result;
        if constexpr (kVectorColumns == 4) {
            reinterpret_cast<float4&>(result) = __ldcg(reinterpret_cast<const float4*>(columns));
        } else {
            reinterpret_cast<float2&>(result) = __ldcg(reinterpret_cast<const float2*>(columns));
        }
        return result;
    }

    __device__ __forceinline__ uint32_t pack(float first, float second) const {
        if (query_type<Tuning>(params_) == DType::kFp16) return ptx::pack<__half>(first, second);
        return ptx::pack<__nv_bfloat16>(first, second);
    }

    // As Merge::store. The max is an exponent of two.
    __device__ __forceinline__ void store(int row, const Row& sums) const {
        const auto [query, head] = QueryRow(rows_, work_tile_, work_tile_.first_row + row);
        const FlashcoreOperand& out = params_.out;
        auto* const row_of_out = static_cast<Element*>(out.data) + work_tile_.sequence * out.batch_stride +
                                 query * out.sequence_stride + head * out.head_stride;
        const auto [row_max, sum] = sums.statistics;
        const float inverse = sum == 0.0f ? 0.0f : __fdividef(1.0f, sum) * shared_.held[warp_].v_scale[rows_.head_of(row)];
#pragma unroll
        for (int i = 0; i < kVectors; ++i) {
            if (column_of(i) >= params_.head_dim) continue;
            uint32_t pairs[kVectorColumns / 2];
#pragma unroll
            for (int pair = 0; pair < kVectorColumns / 2; ++pair) {
                const float* columns = sums.sums[i].x + 2 * pair;
                pairs[pair] = pack(columns[0] * inverse, columns[1] * inverse);
            }
            if constexpr (kVectorColumns == 4) {
                *reinterpret_cast<uint2*>(row_of_out + column_of(i)) = {pairs[0], pairs[1]};
            } else {
                *reinterpret_cast<uint32_t*>(row_of_out + column_of(i)) = pairs[0];
            }
        }
        if (params_.lse == nullptr || lane_ != 0) return;
        const int64_t heads = static_cast<int64_t>(params_.kv_heads) * rows_.group;
        const float value = fmaf(row_max, Base::kLn2, natural_log(sum));
        params_.lse[(work_tile_.sequence * heads + head) * rows_.sq + query] = sum == 0.0f ? sm90::minus_infinity() : value;
    }
};

}  // namespace flashcore::decode
