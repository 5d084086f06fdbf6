// The end of a split: merge the sums of the warps, then those of all splits of the work tile (fix-up), always in order.
#pragma once

#include <cstdint>

#include "flashcore/core/element.cuh"
#include "flashcore/core/logarithm.cuh"
#include "flashcore/core/sink.cuh"
#include "flashcore/decode/fp8.cuh"
#include "flashcore/decode/packed_rows.cuh"
#include "flashcore/decode/params.h"
#include "flashcore/decode/shared_storage.cuh"
#include "flashcore/ptx/math.cuh"
#include "flashcore/ptx/memory.cuh"
#include "flashcore/ptx/warpgroup.cuh"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::decode {

// The softmax state of a warp: per row the max, the sum of exponentials relative to it, and the output relative to it.
template <int kHeadDim>
struct SoftmaxState {
    float row_max[sm90::kRowsPerLane] = {sm90::minus_infinity(), sm90::minus_infinity()};
    float row_sum[sm90::kRowsPerLane] = {};
    float output[kHeadDim / sm90::kMmaN][4] = {};
};

// The max to subtract. A row without keys has -inf, and -inf minus -inf is NaN.
__device__ __forceinline__ float finite_max(float row_max) { return row_max == sm90::minus_infinity() ? 0.0f : row_max; }

// Two neighbouring columns of a row, not yet divided by the sum.
struct ColumnPair {
    float2 statistics;  // max and sum of the row
    float2 sums;
};

template <class Tuning>
class Merge {
public:
    static constexpr Config kConfig = Tuning::config;
    static constexpr int kThreads = kConfig.consumer_warps * sm90::kWarpThreads;
    static constexpr int kPairs = kConfig.head_dim / 2;  // pairs of columns
    using Element = ElementOf<kConfig.dtype>;

    __device__ __forceinline__ Merge(const ParamsOf<Tuning>& params, SharedStorage<Tuning>& shared, const SplitOf<Tuning>& split,
                                     const FixupInfo& fixup, int warp, int lane)
        : params_(params),
          shared_(shared),
          rows_(packed_rows<Tuning>(params, split)),
          work_tile_(params, rows_, split),
          fixup_(fixup),
          warp_(warp),
          lane_(lane) {}

    // The first pass merges eight rows of each row tile, a second one the other eight if they exist. The last CTA that finishes a
    // work tile makes one more pass, over its splits. All passes share one loop, because code that runs once costs as much as its
    // fetch from memory.
    __device__ __forceinline__ void run(const SoftmaxState<kConfig.head_dim>& state) const {
        store_statistics(state);
        barrier();
        const int halves = rows_.count > kMergeRows ? 2 : 1;
#pragma unroll 1
        for (int pass = 0;; ++pass) {
            const bool over_splits = pass == halves;
            if (!over_splits) {
                if (pass == 0) {
                    store_sums<0>(state);
                } else {
                    store_sums<1>(state);
                }
                barrier();
            }
            if constexpr (kConfig.ragged) {
                if (over_splits) {
                    add_up_splits();
                    return;
                }
            }
            add_up(pass, !kConfig.ragged && over_splits);
            if (over_splits) return;
            if (pass + 1 < halves) {
                barrier();  // before the sums are overwritten. After the last pass, the barrier after the next statistics
                            // protects them
            } else if (fixup_.split_count == 1 || !is_last()) {
                return;
            }
        }
    }

protected:
    static constexpr int kConsumerBarrier = 1;
    static constexpr float kLn2 = 0.693147180559945309f;
    static constexpr int kColumnParts = kPairs / sm90::kWarpThreads;  // parts of a row, one pair of columns per lane
    __device__ __forceinline__ static void barrier() { ptx::named_barrier_sync(kConsumerBarrier, kThreads); }

    __device__ __forceinline__ float weight(float row_max, float subtracted_max) const {
        if constexpr (kConfig.fp8_cache) return ptx::exp2_approx(row_max - subtracted_max);  // scaled by the consumer
        return ptx::exp2_approx((row_max - subtracted_max) * params_.scale_log2);
    }

    __device__ __forceinline__ void store_statistics(const SoftmaxState<kConfig.head_dim>& state) const {
#pragma unroll
        for (int r = 0; r < sm90::kRowsPerLane; ++r) {
            const float sum = sm90::quad_sum(state.row_sum[r]);
            if (lane_ % sm90::kQuadLanes == 0) {
                shared_.statistics[warp_][lane_ / sm90::kQuadLanes + r * sm90::kCoreMatrixRows] = {state.row_max[r], sum};
            }
        }
    }

    // The weight of this warp's sums of a row, relative to the max of all warps of its row tile. The lanes of a quad read every
    // fourth of these warps. The first of the warps stores the total.
    __device__ __forceinline__ float warp_weight(const SoftmaxState<kConfig.head_dim>& state, int r) const {
        constexpr int kWarpsPerLane = (kConfig.consumer_warps + sm90::kQuadLanes - 1) / sm90::kQuadLanes;
        const int row_tile = rows_.tile_of(warp_);
        const int row = lane_ / sm90::kQuadLanes + r * sm90::kCoreMatrixRows;
        float2 statistics[kWarpsPerLane];
        float row_max = sm90::minus_infinity();
#pragma unroll
        for (int i = 0; i < kWarpsPerLane; ++i) {
            const int warp = row_tile + ((lane_ % sm90::kQuadLanes + i * sm90::kQuadLanes) << rows_.tile_shift);
            statistics[i] = warp < kConfig.consumer_warps ? shared_.statistics[warp][row] : float2{sm90::minus_infinity(), 0.0f};
            row_max = fmaxf(row_max, statistics[i].x);
        }
        row_max = sm90::quad_max(row_max);
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kWarpsPerLane; ++i) sum += statistics[i].y * weight(statistics[i].x, finite_max(row_max));
        sum = sm90::quad_sum(sum);
        if (warp_ == row_tile && lane_ % sm90::kQuadLanes == 0) shared_.totals[row_tile][row] = {row_max, sum};
        return weight(state.row_max[r], finite_max(row_max));
    }

    // Stores eight rows of each warp: the first row of every lane, or the second.
    template <int kHalf>
    __device__ __forceinline__ void store_sums(const SoftmaxState<kConfig.head_dim>& state) const {
        const float factor = warp_weight(state, kHalf);
        const int row_in_group = lane_ / sm90::kQuadLanes;
        if (!rows_.exists(work_tile_.first_row + rows_.tile_of(warp_) * kRowTileRows + kHalf * kMergeRows + row_in_group)) return;
        float* const row = shared_.sums[warp_][row_in_group] + lane_ % sm90::kQuadLanes * 2;
#pragma unroll
        for (int i = 0; i < kConfig.head_dim / sm90::kMmaN; ++i) {
            const float* output = state.output[i] + 2 * kHalf;
            *reinterpret_cast<float2*>(row + i * sm90::kMmaN) = {output[0] * factor, output[1] * factor};
        }
    }

    // Each warp takes 64 columns of a row at a time. It stores a finished row to the output, and a partial row to the workspace.
    __device__ __forceinline__ void add_up(int pass, bool over_splits) const {
        const int step = over_splits ? kMergeRows : kRowTileRows;
#pragma unroll 1
        for (int item = warp_;; item += kConfig.consumer_warps) {
            const int row_in_group = item / kColumnParts;
            const int group_first = (over_splits ? 0 : pass * kMergeRows) + row_in_group / kMergeRows * step;
            const int row = group_first + row_in_group % kMergeRows;
            if (group_first >= rows_.per_work_tile) break;
            if (!rows_.exists(work_tile_.first_row + row)) continue;
            const int pair = item % kColumnParts * sm90::kWarpThreads + lane_;
            const ColumnPair columns = over_splits ? combine_splits(row, pair) : combine_warps(row, pair);
            if (over_splits || fixup_.split_count == 1) {
                store(row, pair, columns);
            } else {
                float2* const partial = partial_of(fixup_.split_index);
                partial[rows_.per_work_tile + row * kPairs + pair] = columns.sums;
                if (pair == 0) partial[row] = columns.statistics;
            }
        }
    }

    // In merge_splits.cuh.
    __device__ __forceinline__ void add_up_splits() const;
    template <int kItems>
    __device__ __forceinline__ void combine_splits(ColumnPair (&columns)[kItems], int first, int items) const;

    // Adds in the order of the warps of this row tile.
    __device__ __forceinline__ ColumnPair combine_warps(int row, int pair) const {
        const int row_tile = row / kRowTileRows;
        ColumnPair columns = {shared_.totals[row_tile][row % kRowTileRows], {0.0f, 0.0f}};
#pragma unroll
        for (int warp = 0; warp < kConfig.consumer_warps; ++warp) {
            if (rows_.tile_of(warp) != row_tile) continue;
            const float2 sums = *reinterpret_cast<const float2*>(shared_.sums[warp][row % kMergeRows] + pair * 2);
            columns.sums.x += sums.x;
            columns.sums.y += sums.y;
        }
        return columns;
    }

    // Adds in the order of the splits. The lanes load the statistics of the splits while the sums load.
    __device__ __forceinline__ ColumnPair combine_splits(int row, int pair) const {
        constexpr int kBatch = 16;
        const float2* partial = partial_of(0) + row;
        ColumnPair columns = {{sm90::minus_infinity(), 0.0f}, {0.0f, 0.0f}};
#pragma unroll 1
        for (int begin = 0; begin < fixup_.split_count; begin += kBatch) {
            const int count = min_int(fixup_.split_count - begin, kBatch);
            const float2* const sums = partial + rows_.per_work_tile + row * (kPairs - 1) + pair;
            const float2 statistics =
                lane_ < count ? __ldcg(partial + lane_ * partial_pairs()) : float2{sm90::minus_infinity(), 0.0f};
            float2 values[kBatch];
#pragma unroll
            for (int i = 0; i < kBatch; ++i) values[i] = i < count ? __ldcg(sums + i * partial_pairs()) : float2{0.0f, 0.0f};
            const float row_max = fmaxf(columns.statistics.x, sm90::warp_max(statistics.x));
            const float before = weight(columns.statistics.x, finite_max(row_max));
            const float factor = weight(statistics.x, finite_max(row_max));
            columns = {{row_max, columns.statistics.y * before + sm90::warp_sum(statistics.y * factor)},
                       {columns.sums.x * before, columns.sums.y * before}};
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
                const float split_factor = __shfl_sync(sm90::kFullWarpMask, factor, i);
                columns.sums.x = fmaf(values[i].x, split_factor, columns.sums.x);
                columns.sums.y = fmaf(values[i].y, split_factor, columns.sums.y);
            }
            partial += kBatch * partial_pairs();
        }
        return columns;
    }

    // A partial result in the workspace: the statistics of all rows, then their sums.
    __device__ __forceinline__ float2* partial_of(int split) const {
        return reinterpret_cast<float2*>(params_.partials) + (first_partial() + split) * partial_pairs();
    }
    // As in fixup_info. Ragged launches compute it here, where registers are not short.
    __device__ __forceinline__ int first_partial() const { return kConfig.ragged ? 2 * fixup_.counter : fixup_.first_partial; }
    // The same for all sequences, also if some have fewer rows.
    __device__ __forceinline__ int64_t partial_pairs() const {
        return static_cast<int64_t>(kConfig.ragged ? params_.rows.per_work_tile : rows_.per_work_tile) * (1 + kPairs);
    }

    // Whether this split is the last of its work tile to finish. Resets the counter for the next launch.
    __device__ __forceinline__ bool is_last() const {
        __threadfence();
        barrier();
        if (warp_ == 0 && lane_ == 0) {
            unsigned* const counter = params_.counters + fixup_.counter;
            shared_.finished_splits = ptx::atomic_increment(counter);
            if (shared_.finished_splits == fixup_.split_count - 1u) *counter = 0;
            __threadfence();
        }
        barrier();
        return shared_.finished_splits == fixup_.split_count - 1u;
    }

    // A row that saw no key gives 0 and -infinity.
    __device__ __forceinline__ void store(int row, int pair, const ColumnPair& columns) const {
        if (2 * pair >= params_.head_dim) return;
        const auto [query, head] = QueryRow(rows_, work_tile_, work_tile_.first_row + row);
        const FlashcoreOperand& out = params_.out;
        auto* const row_of_out = static_cast<Element*>(out.data) + work_tile_.sequence * out.batch_stride +
                                 (work_tile_.first_query + query) * out.sequence_stride + head * out.head_stride;
        const auto [row_max, sum] = columns.statistics;
        float inverse = sum == 0.0f ? 0.0f : __fdividef(1.0f, sum);
        if constexpr (kConfig.local) inverse = end_row(row_max, sum, head).inverse;
        reinterpret_cast<uint32_t*>(row_of_out)[pair] = ptx::pack<Element>(columns.sums.x * inverse, columns.sums.y * inverse);
        if (params_.lse == nullptr || pair != 0) return;
        const int64_t heads = static_cast<int64_t>(params_.kv_heads) * rows_.group;
        if constexpr (kConfig.local) {
            const int64_t row = work_tile_.first_query + query;
            params_.lse[kConfig.ragged ? static_cast<int64_t>(head) * params_.queries.total + row
                                       : (work_tile_.sequence * heads + head) * rows_.sq + row] = end_row(row_max, sum, head).lse;
            return;
        }
        const float value = fmaf(row_max, params_.scale, natural_log(sum));
        if constexpr (kConfig.ragged) {
            params_.lse[static_cast<int64_t>(head) * params_.queries.total + work_tile_.first_query + query] =
                sum == 0.0f ? sm90::minus_infinity() : value;
        } else {
            params_.lse[(work_tile_.sequence * heads + head) * rows_.sq + query] = sum == 0.0f ? sm90::minus_infinity() : value;
        }
    }

    // The sink joins the sums when all splits have been merged, so exactly once.
    __device__ __forceinline__ RowEnd end_row(float row_max, float sum, int head) const {
        const float sink = params_.local.sinks == nullptr ? sm90::minus_infinity() : load_sink(params_.local, head);
        return end_with_sink(row_max, sum, params_.scale, sink);
    }

    const ParamsOf<Tuning>& params_;
    SharedStorage<Tuning>& shared_;
    PackedRows rows_;
    WorkTile work_tile_;
    FixupInfo fixup_;
    int warp_;
    int lane_;
};

}  // namespace flashcore::decode

#include "flashcore/decode/merge_splits.cuh"
