// The end of a split of a warpgroup: rows go from registers to the output or the workspace. The last CTA adds up the splits.
#pragma once

#include "flashcore/decode/merge.cuh"

namespace flashcore::decode {

// The softmax state of a lane's rows when a split has ended.
template <int kHeadDim>
struct WarpgroupState {
    float row_max[sm90::kRowsPerLane];
    float row_sum[sm90::kRowsPerLane];  // of the lane's columns
    float output[kHeadDim / 2];
};

// The end of a split: rows go from registers to the output, or to the workspace. Then the splits are added up as in merge.cuh.
template <class Tuning>
class WarpgroupEnd : Merge<Tuning> {
    using Base = Merge<Tuning>;
    using Base::kConfig, Base::kPairs;
    using Base::params_, Base::rows_, Base::work_tile_, Base::fixup_, Base::warp_, Base::lane_;
    using typename Base::Element;

public:
    using Base::Base;

    __device__ __forceinline__ void run(const WarpgroupState<kConfig.head_dim>& state) const {
#pragma unroll
        for (int r = 0; r < sm90::kRowsPerLane; ++r) {
            const float sum = sm90::quad_sum(state.row_sum[r]);
            const int row = warp_ * kRowTileRows + lane_ / sm90::kQuadLanes + r * sm90::kCoreMatrixRows;
            if (!rows_.exists(row)) continue;
            if (fixup_.split_count == 1) {
                store_row(row, state.row_max[r], sum, state.output + 2 * r);
            } else {
                store_partial(row, state.row_max[r], sum, state.output + 2 * r);
            }
        }
        if (fixup_.split_count > 1 && this->is_last()) add_up_splits();
    }

private:
    static constexpr int kColumns = 4;  // neighbouring columns that a lane loads at a time
    static constexpr int kRowLanes = kConfig.head_dim / kColumns;
    static constexpr int kRowsAtOnce = sm90::kWarpThreads / kRowLanes;  // of a warp
    static constexpr int kRowStep = kConfig.consumer_warps * kRowsAtOnce;
    static constexpr int kRows = kConfig.head_dim == 64 ? 3 : 5;  // rows of a lane
    static constexpr int kSplits = 2;                             // splits that it loads together
    static constexpr int kPartialPairs = kWarpgroupRows * (1 + kPairs);

    struct RowSums {
        float2 statistics;
        float4 columns;
    };

    // The last CTA adds the splits up. It runs this once, so each instruction costs its fetch from memory: lanes load whole rows.
    __device__ __forceinline__ void add_up_splits() const {
        const int count = rows_.count;
#pragma unroll 1
        for (int first = warp_ * kRowsAtOnce; first < count; first += kRows * kRowStep) {
            RowSums totals[kRows];
#pragma unroll
            for (RowSums& total : totals) total = {{sm90::minus_infinity(), 0.0f}, {0.0f, 0.0f, 0.0f, 0.0f}};
            const int lane_row = first + lane_ / kRowLanes;
#pragma unroll 1
            for (int begin = 0; begin < fixup_.split_count; begin += kSplits) add_splits(totals, lane_row, begin);
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
                if (lane_row + i * kRowStep < count) store_total(lane_row + i * kRowStep, totals[i]);
            }
        }
    }

    // Rows behind the last one load that one, and are not stored.
    __device__ __forceinline__ void add_splits(RowSums (&totals)[kRows], int lane_row, int begin) const {
        const float2* const partial = this->partial_of(begin);
        RowSums parts[kRows][kSplits];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            const int row = min_int(lane_row + i * kRowStep, rows_.count - 1);
            const auto* const columns =
                reinterpret_cast<const float4*>(partial + kWarpgroupRows) + row * kRowLanes + lane_ % kRowLanes;
#pragma unroll
            for (int split = 0; split < kSplits; ++split) {
                if (begin + split >= fixup_.split_count) continue;
                parts[i][split] = {__ldcg(partial + row + split * kPartialPairs), __ldcg(columns + split * (kPartialPairs / 2))};
            }
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
            for (int split = 0; split < kSplits; ++split) {
                if (begin + split < fixup_.split_count) add(totals[i], parts[i][split]);
            }
        }
    }

    __device__ __forceinline__ void add(RowSums& total, const RowSums& part) const {
        const float row_max = fmaxf(total.statistics.x, part.statistics.x);
        const float before = this->weight(total.statistics.x, finite_max(row_max));
        const float factor = this->weight(part.statistics.x, finite_max(row_max));
        total.statistics = {row_max, total.statistics.y * before + part.statistics.y * factor};
        total.columns = {total.columns.x * before + part.columns.x * factor, total.columns.y * before + part.columns.y * factor,
                         total.columns.z * before + part.columns.z * factor, total.columns.w * before + part.columns.w * factor};
    }

    __device__ __forceinline__ void store_total(int row, const RowSums& total) const {
        const auto [query, head] = QueryRow(rows_, work_tile_, row);
        const int64_t out_row = work_tile_.first_query + query;
        const RowEnd end = end_of(total.statistics.x, total.statistics.y, head);
        const float4& sums = total.columns;
        if (lane_ % kRowLanes * kColumns < params_.head_dim) {
            reinterpret_cast<uint2*>(row_of_out(out_row, head))[lane_ % kRowLanes] = {
                ptx::pack<Element>(sums.x * end.inverse, sums.y * end.inverse),
                ptx::pack<Element>(sums.z * end.inverse, sums.w * end.inverse)};
        }
        if (lane_ % kRowLanes == 0) store_lse(out_row, head, end.lse);
    }

    __device__ __forceinline__ Element* row_of_out(int64_t out_row, int head) const {
        const FlashcoreOperand& out = params_.out;
        return static_cast<Element*>(out.data) + out_row * out.sequence_stride + head * out.head_stride;
    }

    __device__ __forceinline__ void store_lse(int64_t out_row, int head, float lse) const {
        if (params_.lse != nullptr) params_.lse[static_cast<int64_t>(head) * params_.queries.total + out_row] = lse;
    }

    // A row that saw no key gives 0 and -infinity.
    __device__ __forceinline__ RowEnd end_of(float row_max, float sum, int head) const {
        if constexpr (kConfig.local) return this->end_row(row_max, sum, head);
        RowEnd end{};
        end.inverse = sum == 0.0f ? 0.0f : __fdividef(1.0f, sum);
        end.lse = sum == 0.0f ? sm90::minus_infinity() : fmaf(row_max, params_.scale, natural_log(sum));
        return end;
    }

    // `sums` holds two neighbouring columns of this row in every four values.
    __device__ __forceinline__ void store_partial(int row, float row_max, float sum, const float* sums) const {
        float2* const partial = this->partial_of(fixup_.split_index);
        float2* const pairs = partial + rows_.per_work_tile + row * kPairs + lane_ % sm90::kQuadLanes;
#pragma unroll
        for (int i = 0; i < kConfig.head_dim / sm90::kMmaN; ++i) pairs[i * sm90::kQuadLanes] = {sums[4 * i], sums[4 * i + 1]};
        if (lane_ % sm90::kQuadLanes == 0) partial[row] = {row_max, sum};
    }

    __device__ __forceinline__ void store_row(int row, float row_max, float sum, const float* sums) const {
        const auto [query, head] = QueryRow(rows_, work_tile_, row);
        const int64_t out_row = work_tile_.first_query + query;
        auto* const pairs = reinterpret_cast<uint32_t*>(row_of_out(out_row, head)) + lane_ % sm90::kQuadLanes;
        const RowEnd end = end_of(row_max, sum, head);
#pragma unroll
        for (int i = 0; i < kConfig.head_dim / sm90::kMmaN; ++i) {
            const uint32_t pair = ptx::pack<Element>(sums[4 * i] * end.inverse, sums[4 * i + 1] * end.inverse);
            if (i * sm90::kMmaN < params_.head_dim) pairs[i * sm90::kQuadLanes] = pair;
        }
        if (lane_ % sm90::kQuadLanes == 0) store_lse(out_row, head, end.lse);
    }
};

}  // namespace flashcore::decode
