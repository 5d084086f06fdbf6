// The end of a piece: what the warps have summed is put together, then what the pieces of a unit have summed, always in order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "flashcore/core/logarithm.cuh"
#include "flashcore/decode/params.h"
#include "flashcore/decode/rows.cuh"
#include "flashcore/decode/shared_storage.cuh"
#include "flashcore/ptx/math.cuh"
#include "flashcore/ptx/memory.cuh"
#include "flashcore/ptx/warpgroup.cuh"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::decode {

// What a warp has summed of two rows of each lane: the largest score, and exponentials relative to it.
template <int kHeadDim>
struct State {
    float maximum[sm90::kRowsPerLane] = {sm90::minus_infinity(), sm90::minus_infinity()};
    float sum[sm90::kRowsPerLane] = {};
    float output[kHeadDim / sm90::kMmaColumns][4] = {};
};

// What is subtracted where `maximum` is the largest score: without a key, -inf minus -inf would be NaN.
__device__ __forceinline__ float centre_of(float maximum) { return maximum == sm90::minus_infinity() ? 0.0f : maximum; }

// Two neighbouring columns of a row, not yet divided by the sum.
struct Columns {
    float2 statistics;  // maximum and sum of the row
    float2 sums;
};

template <class Tuning>
class Merge {
public:
    static constexpr Config kConfig = Tuning::config;
    static constexpr int kThreads = kConfig.consumer_warps * sm90::kWarpThreads;
    static constexpr int kPairs = kConfig.head_dim / 2;  // of columns
    using Element = std::conditional_t<kConfig.dtype == DType::kFp16, __half, __nv_bfloat16>;

    __device__ __forceinline__ Merge(const Params& params, SharedStorage<Tuning>& shared, const Piece& piece, const Joint& joint,
                                     int warp, int lane)
        : params_(params),
          shared_(shared),
          rows_(rows_of<Tuning>(params)),
          unit_(params, rows_, piece),
          joint_(joint),
          warp_(warp),
          lane_(lane) {}

    // One pass over eight rows of each row tile, another over the eight behind them if there are any, and the last to finish a
    // unit makes one more, over its pieces. One loop for all of them: code that runs once is as slow as memory.
    __device__ __forceinline__ void run(const State<kConfig.head_dim>& state) const {
        share_statistics(state);
        barrier();
        const int halves = rows_.count > kMergeRows ? 2 : 1;
#pragma unroll 1
        for (int pass = 0;; ++pass) {
            const bool pieces = pass == halves;
            if (!pieces) {
                if (pass == 0) {
                    share_sums<0>(state);
                } else {
                    share_sums<1>(state);
                }
                barrier();
            }
            add_up(pass, pieces);
            if (pieces) return;
            if (pass + 1 < halves) {
                barrier();  // before the sums are overwritten; those of the last pass by what follows their statistics
            } else if (joint_.count == 1 || !is_last()) {
                return;
            }
        }
    }

private:
    static constexpr int kConsumerBarrier = 1;
    static constexpr int kParts = kPairs / sm90::kWarpThreads;  // of a row: one pair of columns for each lane
    __device__ __forceinline__ static void barrier() { ptx::named_barrier_sync(kConsumerBarrier, kThreads); }

    __device__ __forceinline__ float weight(float maximum, float centre) const {
        return ptx::exp2_approx((maximum - centre) * params_.scale_log2);
    }

    __device__ __forceinline__ void share_statistics(const State<kConfig.head_dim>& state) const {
#pragma unroll
        for (int r = 0; r < sm90::kRowsPerLane; ++r) {
            const float sum = sm90::quad_sum(state.sum[r]);
            if (lane_ % sm90::kQuadLanes == 0) {
                shared_.statistics[warp_][lane_ / sm90::kQuadLanes + r * sm90::kGroupRows] = {state.maximum[r], sum};
            }
        }
    }

    // The weight of this warp's sums of a row, relative to the largest score of all warps that have its row tile. The lanes of a
    // quad look at every fourth of these warps; the first of the warps keeps what they have together.
    __device__ __forceinline__ float centre(const State<kConfig.head_dim>& state, int r) const {
        constexpr int kLooks = (kConfig.consumer_warps + sm90::kQuadLanes - 1) / sm90::kQuadLanes;
        const int row_tile = rows_.tile_of(warp_);
        const int row = lane_ / sm90::kQuadLanes + r * sm90::kGroupRows;
        float2 own[kLooks];
        float maximum = sm90::minus_infinity();
#pragma unroll
        for (int i = 0; i < kLooks; ++i) {
            const int warp = row_tile + ((lane_ % sm90::kQuadLanes + i * sm90::kQuadLanes) << rows_.tile_shift);
            own[i] = warp < kConfig.consumer_warps ? shared_.statistics[warp][row] : float2{sm90::minus_infinity(), 0.0f};
            maximum = fmaxf(maximum, own[i].x);
        }
        maximum = sm90::quad_max(maximum);
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kLooks; ++i) sum += own[i].y * weight(own[i].x, centre_of(maximum));
        sum = sm90::quad_sum(sum);
        if (warp_ == row_tile && lane_ % sm90::kQuadLanes == 0) shared_.totals[row_tile][row] = {maximum, sum};
        return weight(state.maximum[r], centre_of(maximum));
    }

    // Eight rows of each warp: the first row of every lane, or the second.
    template <int kHalf>
    __device__ __forceinline__ void share_sums(const State<kConfig.head_dim>& state) const {
        const float factor = centre(state, kHalf);
        const int row_in = lane_ / sm90::kQuadLanes;
        if (!rows_.exists(unit_.first_row + rows_.tile_of(warp_) * kTileRows + kHalf * kMergeRows + row_in)) return;
        float* const row = shared_.sums[warp_][row_in] + lane_ % sm90::kQuadLanes * 2;
#pragma unroll
        for (int i = 0; i < kConfig.head_dim / sm90::kMmaColumns; ++i) {
            const float* output = state.output[i] + 2 * kHalf;
            *reinterpret_cast<float2*>(row + i * sm90::kMmaColumns) = {output[0] * factor, output[1] * factor};
        }
    }

    // Each warp takes 64 columns of a row at a time. A finished row leaves, a part of one waits for the others in the workspace.
    __device__ __forceinline__ void add_up(int pass, bool pieces) const {
        const int step = pieces ? kMergeRows : kTileRows;
#pragma unroll 1
        for (int line = warp_;; line += kConfig.consumer_warps) {
            const int row_in = line / kParts;
            const int eight = (pieces ? 0 : pass * kMergeRows) + row_in / kMergeRows * step;
            const int row = eight + row_in % kMergeRows;
            if (eight >= rows_.per_unit) break;
            if (!rows_.exists(unit_.first_row + row)) continue;
            const int pair = line % kParts * sm90::kWarpThreads + lane_;
            const Columns columns = pieces ? over_pieces(row, pair) : over_warps(row, pair);
            if (pieces || joint_.count == 1) {
                store(row, pair, columns);
            } else {
                float2* const place = place_of(joint_.index);
                place[rows_.per_unit + row * kPairs + pair] = columns.sums;
                if (pair == 0) place[row] = columns.statistics;
            }
        }
    }

    // In the order of the warps that have this row tile.
    __device__ __forceinline__ Columns over_warps(int row, int pair) const {
        const int row_tile = row / kTileRows;
        Columns columns = {shared_.totals[row_tile][row % kTileRows], {0.0f, 0.0f}};
#pragma unroll
        for (int warp = 0; warp < kConfig.consumer_warps; ++warp) {
            if (rows_.tile_of(warp) != row_tile) continue;
            const float2 part = *reinterpret_cast<const float2*>(shared_.sums[warp][row % kMergeRows] + pair * 2);
            columns.sums.x += part.x;
            columns.sums.y += part.y;
        }
        return columns;
    }

    // In the order of the pieces. What they have of a row comes together with what it weighs, which the lanes work out.
    __device__ __forceinline__ Columns over_pieces(int row, int pair) const {
        constexpr int kTogether = 16;
        const float2* part = place_of(0) + row;
        Columns columns = {{sm90::minus_infinity(), 0.0f}, {0.0f, 0.0f}};
#pragma unroll 1
        for (int begin = 0; begin < joint_.count; begin += kTogether) {
            const int pieces = least(joint_.count - begin, kTogether);
            const float2* const sums = part + rows_.per_unit + row * (kPairs - 1) + pair;
            const float2 own = lane_ < pieces ? __ldcg(part + lane_ * place_pairs()) : float2{sm90::minus_infinity(), 0.0f};
            float2 parts[kTogether];
#pragma unroll
            for (int i = 0; i < kTogether; ++i) parts[i] = i < pieces ? __ldcg(sums + i * place_pairs()) : float2{0.0f, 0.0f};
            const float maximum = fmaxf(columns.statistics.x, sm90::warp_max(own.x));
            const float before = weight(columns.statistics.x, centre_of(maximum));
            const float factor = weight(own.x, centre_of(maximum));
            columns = {{maximum, columns.statistics.y * before + sm90::warp_sum(own.y * factor)},
                       {columns.sums.x * before, columns.sums.y * before}};
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
                const float other = __shfl_sync(sm90::kWholeWarp, factor, i);
                columns.sums.x = fmaf(parts[i].x, other, columns.sums.x);
                columns.sums.y = fmaf(parts[i].y, other, columns.sums.y);
            }
            part += kTogether * place_pairs();
        }
        return columns;
    }

    // A place in the workspace: the statistics of all rows, then their sums.
    __device__ __forceinline__ float2* place_of(int piece) const {
        return reinterpret_cast<float2*>(params_.pieces) + (joint_.place + piece) * place_pairs();
    }
    __device__ __forceinline__ int64_t place_pairs() const { return static_cast<int64_t>(rows_.per_unit) * (1 + kPairs); }

    // Whether this piece is the last of its unit to be finished. Leaves the counter as it was before the launch.
    __device__ __forceinline__ bool is_last() const {
        __threadfence();
        barrier();
        if (warp_ == 0 && lane_ == 0) {
            unsigned* const counter = params_.counters + joint_.counter;
            shared_.arrived = ptx::atomic_increment(counter);
            if (shared_.arrived == joint_.count - 1u) *counter = 0;
            __threadfence();
        }
        barrier();
        return shared_.arrived == joint_.count - 1u;
    }

    // A row that saw no key gives 0 and -infinity.
    __device__ __forceinline__ void store(int row, int pair, const Columns& columns) const {
        const auto [query, head] = RowPlace(rows_, unit_, unit_.first_row + row);
        const FlashcoreOperand& out = params_.out;
        auto* const row_of_out = static_cast<Element*>(out.data) + unit_.sequence * out.batch_stride +
                                 query * out.sequence_stride + head * out.head_stride;
        const auto [maximum, sum] = columns.statistics;
        const float inverse = sum == 0.0f ? 0.0f : __fdividef(1.0f, sum);
        reinterpret_cast<uint32_t*>(row_of_out)[pair] = ptx::pack<Element>(columns.sums.x * inverse, columns.sums.y * inverse);
        if (params_.lse == nullptr || pair != 0) return;
        const int64_t heads = static_cast<int64_t>(params_.kv_heads) * rows_.group;
        const float value = fmaf(maximum, params_.scale, natural_log(sum));
        params_.lse[(unit_.sequence * heads + head) * rows_.sq + query] = sum == 0.0f ? sm90::minus_infinity() : value;
    }

    const Params& params_;
    SharedStorage<Tuning>& shared_;
    Rows rows_;
    Unit unit_;
    Joint joint_;
    int warp_;
    int lane_;
};

}  // namespace flashcore::decode
