// The end of a piece: what the warps have summed is put together, then what the pieces of a unit have summed, always in order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "flashcore/decode/params.h"
#include "flashcore/decode/shared_storage.cuh"
#include "flashcore/ptx/math.cuh"
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

// A row's sums, and two neighbouring columns of its output.
struct Sums {
    float maximum = sm90::minus_infinity();
    float sum = 0.0f;
    float2 output = {0.0f, 0.0f};

    __device__ __forceinline__ void add(float2 statistics, float2 columns, float scale_log2) {
        const float larger = fmaxf(maximum, statistics.x);
        const float centre = centre_of(larger);
        const float own = ptx::exp2_approx((maximum - centre) * scale_log2);
        const float other = ptx::exp2_approx((statistics.x - centre) * scale_log2);
        maximum = larger;
        sum = sum * own + statistics.y * other;
        output.x = output.x * own + columns.x * other;
        output.y = output.y * own + columns.y * other;
    }
};

template <class Tuning>
class Merge {
public:
    static constexpr Config kConfig = Tuning::config;
    static constexpr int kThreads = kConfig.consumer_warps * sm90::kWarpThreads;
    static constexpr int kPairs = kConfig.head_dim / 2;  // of columns
    using Element = std::conditional_t<kConfig.dtype == DType::kFp16, __half, __nv_bfloat16>;

    __device__ __forceinline__ Merge(const Params& params, SharedStorage<Tuning>& shared, const Piece& piece, int warp, int lane)
        : params_(params), shared_(shared), piece_(piece), warp_(warp), lane_(lane),
          first_row_(piece.unit % params.row_units * params.rows.per_unit) {}

    __device__ __forceinline__ void run(State<kConfig.head_dim>& state) {
        share_statistics(state);
        const int halves = params_.rows.count > kMergeRows ? 2 : 1;
#pragma unroll 1
        for (int half = 0; half < halves; ++half) {
#pragma unroll
            for (int column = 0; column < kConfig.head_dim; column += kMergeColumns) {
                share_sums(state, half, column);
                barrier();
                add_warps(half, column);
                barrier();
            }
        }
        if (piece_.count > 1 && is_last()) add_pieces();
    }

private:
    static constexpr int kConsumerBarrier = 1;
    __device__ __forceinline__ static void barrier() { ptx::named_barrier_sync(kConsumerBarrier, kThreads); }

    // Every warp tells its rows' statistics, and takes its sums relative to the largest score of all warps.
    __device__ __forceinline__ void share_statistics(State<kConfig.head_dim>& state) {
#pragma unroll
        for (int r = 0; r < sm90::kRowsPerLane; ++r) {
            const int row = lane_ / sm90::kQuadLanes + r * sm90::kGroupRows;
            if (lane_ % sm90::kQuadLanes == 0) shared_.statistics[warp_][row] = {state.maximum[r], state.sum[r]};
        }
        barrier();
#pragma unroll
        for (int r = 0; r < sm90::kRowsPerLane; ++r) {
            const int row = lane_ / sm90::kQuadLanes + r * sm90::kGroupRows;
            const float centre = centre_of(statistics(params_.rows.tile_of(warp_), row).x);
            const float factor = ptx::exp2_approx((state.maximum[r] - centre) * params_.scale_log2);
#pragma unroll
            for (auto& output : state.output) {
                output[2 * r] *= factor;
                output[2 * r + 1] *= factor;
            }
        }
    }

    // Maximum and sum of a row over all warps that have its row tile, in their order.
    __device__ __forceinline__ float2 statistics(int row_tile, int row) const {
        Sums all;
        for (int warp = row_tile; warp < kConfig.consumer_warps; warp += params_.rows.tiles()) {
            all.add(shared_.statistics[warp][row], {0.0f, 0.0f}, params_.scale_log2);
        }
        return {all.maximum, all.sum};
    }

    __device__ __forceinline__ void share_sums(const State<kConfig.head_dim>& state, int half, int first_column) {
        float* const row = shared_.sums[warp_][lane_ / sm90::kQuadLanes] + lane_ % sm90::kQuadLanes * 2;
#pragma unroll
        for (int column = 0; column < kMergeColumns; column += sm90::kMmaColumns) {
            const float* output = state.output[(first_column + column) / sm90::kMmaColumns];
            *reinterpret_cast<float2*>(row + column) = {half == 0 ? output[0] : output[2], half == 0 ? output[1] : output[3]};
        }
    }

    // Each warp adds up a row of every row tile, each lane two columns of it.
    __device__ __forceinline__ void add_warps(int half, int first_column) {
        for (int line = warp_; line < params_.rows.tiles() * kMergeRows; line += kConfig.consumer_warps) {
            const int row_tile = line / kMergeRows;
            const int row = row_tile * kTileRows + half * kMergeRows + line % kMergeRows;
            float2 sum = {0.0f, 0.0f};
            for (int warp = row_tile; warp < kConfig.consumer_warps; warp += params_.rows.tiles()) {
                const float2 part = *reinterpret_cast<const float2*>(shared_.sums[warp][line % kMergeRows] + lane_ * 2);
                sum.x += part.x;
                sum.y += part.y;
            }
            const float2 statistic = statistics(row_tile, row % kTileRows);
            emit(row, first_column / 2 + lane_, {statistic.x, statistic.y, sum});
        }
    }

    // A finished row of the unit leaves, a part of one waits for the others. `pair`: which two columns.
    __device__ __forceinline__ void emit(int row, int pair, const Sums& sums) const {
        if (first_row_ + row >= params_.rows.count) return;
        if (piece_.count == 1) {
            store(row, pair, sums);
            return;
        }
        float2* const place = place_of(piece_.index);
        place[params_.rows.per_unit + row * kPairs + pair] = sums.output;
        if (pair == 0) place[row] = {sums.maximum, sums.sum};
    }

    // A place in the workspace: the statistics of all rows, then their sums. A unit that is cut where shares end has its first
    // piece in the second place of a CTA, and the others in the first place of those that follow.
    __device__ __forceinline__ float2* place_of(int piece) const {
        const int64_t pair_count = static_cast<int64_t>(params_.rows.per_unit) * (kPairs + 1);
        const int64_t place = params_.cut.pieces == 0 ? 2 * (piece_.owner + piece) + (piece == 0 ? 1 : 0)
                                                      : static_cast<int64_t>(unit()) * params_.most_pieces + piece;
        return reinterpret_cast<float2*>(params_.pieces) + place * pair_count;
    }

    __device__ __forceinline__ int unit() const { return piece_.sequence * params_.cut.units + piece_.unit; }

    // Whether this piece is the last of its unit to be finished. Leaves the counter as it was before the launch.
    __device__ __forceinline__ bool is_last() const {
        __threadfence();
        barrier();
        if (warp_ == 0 && lane_ == 0) {
            unsigned* const arrivals = params_.arrivals + (params_.cut.pieces == 0 ? piece_.owner : unit());
            shared_.arrived = atomicAdd(arrivals, 1u);
            if (shared_.arrived == piece_.count - 1u) *arrivals = 0;
            __threadfence();
        }
        barrier();
        return shared_.arrived == piece_.count - 1u;
    }

    __device__ __forceinline__ void add_pieces() const {
        const int rows = least(params_.rows.count - first_row_, params_.rows.per_unit);
        for (int i = warp_ * sm90::kWarpThreads + lane_; i < rows * kPairs; i += kThreads) {
            const int row = i / kPairs;
            Sums sums;
#pragma unroll 8
            for (int piece = 0; piece < piece_.count; ++piece) {
                const float2* const place = place_of(piece);
                sums.add(__ldcg(place + row), __ldcg(place + params_.rows.per_unit + i), params_.scale_log2);
            }
            store(row, i % kPairs, sums);
        }
    }

    // A row that saw no key gives 0 and -infinity.
    __device__ __forceinline__ void store(int row, int pair, const Sums& sums) const {
        const int packed_row = first_row_ + row;
        const int query = packed_row / params_.rows.group;
        const int head = piece_.unit / params_.row_units * params_.rows.group + packed_row % params_.rows.group;
        const FlashcoreOperand& out = params_.out;
        auto* const columns = static_cast<Element*>(out.data) + piece_.sequence * out.batch_stride + query * out.sequence_stride +
                              head * out.head_stride;
        const float inverse = sums.sum == 0.0f ? 0.0f : __fdividef(1.0f, sums.sum);
        reinterpret_cast<uint32_t*>(columns)[pair] = ptx::pack<Element>(sums.output.x * inverse, sums.output.y * inverse);
        if (params_.lse == nullptr || pair != 0) return;
        const int64_t heads = static_cast<int64_t>(params_.kv_heads) * params_.rows.group;
        const float value = fmaf(sums.maximum, params_.scale, __logf(sums.sum));
        params_.lse[(piece_.sequence * heads + head) * params_.rows.sq + query] =
            sums.sum == 0.0f ? sm90::minus_infinity() : value;
    }

    const Params& params_;
    SharedStorage<Tuning>& shared_;
    const Piece& piece_;
    int warp_;
    int lane_;
    int first_row_;  // of the unit, among the packed rows of its KV head
};

}  // namespace flashcore::decode
