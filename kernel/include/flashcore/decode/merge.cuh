// The end of a piece: what the warps have summed is put together, then what the pieces of a unit have summed, always in order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "flashcore/core/logarithm.cuh"
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

// Rows of a unit among those of its sequence.
struct Unit {
    int sequence;
    int kv_head;
    int first_row;  // packed

    __device__ __forceinline__ Unit(const Params& params, const Piece& piece)
        : sequence(piece.sequence),
          kv_head(divide(piece.unit, params.row_units)),
          first_row((piece.unit - kv_head * params.row_units) * params.rows.per_unit) {}
};

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
                                     bool rehearsal, int warp, int lane)
        : params_(params),
          shared_(shared),
          unit_(params, piece),
          joint_(joint),
          rehearsal_(rehearsal),
          warp_(warp),
          lane_(lane) {}

    __device__ __forceinline__ void run(State<kConfig.head_dim>& state) const {
        share_statistics(state);
        barrier();
        add_statistics();
        barrier();
        centre(state);
        const int halves = params_.rows.count > kMergeRows ? 2 : 1;
#pragma unroll 1
        for (int half = 0; half < halves; ++half) {
            share_sums(state, half);
            barrier();
            add_sums(half);
            barrier();
        }
        if (joint_.count > 1 && (rehearsal_ || is_last())) add_pieces();
    }

private:
    static constexpr int kConsumerBarrier = 1;
    __device__ __forceinline__ static void barrier() { ptx::named_barrier_sync(kConsumerBarrier, kThreads); }

    __device__ __forceinline__ float weight(float maximum, float centre) const {
        return ptx::exp2_approx((maximum - centre) * params_.scale_log2);
    }

    __device__ __forceinline__ void share_statistics(const State<kConfig.head_dim>& state) const {
        if (lane_ % sm90::kQuadLanes != 0) return;
#pragma unroll
        for (int r = 0; r < sm90::kRowsPerLane; ++r) {
            shared_.statistics[warp_][lane_ / sm90::kQuadLanes + r * sm90::kGroupRows] = {state.maximum[r], state.sum[r]};
        }
    }

    // Of each row over the warps that have its row tile, in their order. They go where those of the first such warp were.
    __device__ __forceinline__ void add_statistics() const {
        const int line = warp_ * sm90::kWarpThreads + lane_;
        const int row_tile = line / kTileRows;
        if (row_tile >= params_.rows.tiles()) return;
        float maximum = sm90::minus_infinity();
        float sum = 0.0f;
        for (int warp = row_tile; warp < kConfig.consumer_warps; warp += params_.rows.tiles()) {
            maximum = fmaxf(maximum, shared_.statistics[warp][line % kTileRows].x);
        }
        for (int warp = row_tile; warp < kConfig.consumer_warps; warp += params_.rows.tiles()) {
            const float2 own = shared_.statistics[warp][line % kTileRows];
            sum += own.y * weight(own.x, centre_of(maximum));
        }
        shared_.statistics[row_tile][line % kTileRows] = {maximum, sum};
    }

    // A warp's sums relative to the largest score of all warps.
    __device__ __forceinline__ void centre(State<kConfig.head_dim>& state) const {
#pragma unroll
        for (int r = 0; r < sm90::kRowsPerLane; ++r) {
            const int row = lane_ / sm90::kQuadLanes + r * sm90::kGroupRows;
            const float factor = weight(state.maximum[r], centre_of(shared_.statistics[params_.rows.tile_of(warp_)][row].x));
#pragma unroll
            for (auto& output : state.output) {
                output[2 * r] *= factor;
                output[2 * r + 1] *= factor;
            }
        }
    }

    __device__ __forceinline__ void share_sums(const State<kConfig.head_dim>& state, int half) const {
        float* const row = shared_.sums[warp_][lane_ / sm90::kQuadLanes] + lane_ % sm90::kQuadLanes * 2;
#pragma unroll
        for (int i = 0; i < kConfig.head_dim / sm90::kMmaColumns; ++i) {
            const float* output = state.output[i];
            *reinterpret_cast<float2*>(row + i * sm90::kMmaColumns) = {half == 0 ? output[0] : output[2],
                                                                       half == 0 ? output[1] : output[3]};
        }
    }

    // Each thread adds up two columns of a row. A finished row leaves, a part of one waits for the others in the workspace.
    __device__ __forceinline__ void add_sums(int half) const {
        const int lines = params_.rows.tiles() * kMergeRows * kPairs;
#pragma unroll 1
        for (int line = warp_ * sm90::kWarpThreads + lane_; line < lines; line += kThreads) {
            const int pair = line % kPairs;
            const int row_of_half = line / kPairs % kMergeRows;
            const int row_tile = line / (kPairs * kMergeRows);
            const int row = row_tile * kTileRows + half * kMergeRows + row_of_half;
            if (unit_.first_row + row >= params_.rows.count) continue;
            float2 sums = {0.0f, 0.0f};
#pragma unroll 4
            for (int warp = row_tile; warp < kConfig.consumer_warps; warp += params_.rows.tiles()) {
                const float2 part = *reinterpret_cast<const float2*>(shared_.sums[warp][row_of_half] + pair * 2);
                sums.x += part.x;
                sums.y += part.y;
            }
            const float2 statistics = shared_.statistics[row_tile][row % kTileRows];
            if (joint_.count == 1) {
                store(row, pair, {statistics, sums});
            } else {
                float2* const place = place_of(joint_.index);
                place[params_.rows.per_unit + row * kPairs + pair] = sums;
                if (pair == 0) place[row] = statistics;
            }
        }
    }

    // A place in the workspace: the statistics of all rows, then their sums.
    __device__ __forceinline__ float2* place_of(int piece) const {
        return reinterpret_cast<float2*>(params_.pieces) + (joint_.place + piece) * place_pairs();
    }
    __device__ __forceinline__ int64_t place_pairs() const { return static_cast<int64_t>(params_.rows.per_unit) * (1 + kPairs); }

    // Whether this piece is the last of its unit to be finished. Leaves the counter as it was before the launch.
    __device__ __forceinline__ bool is_last() const {
        __threadfence();
        barrier();
        if (warp_ == 0 && lane_ == 0) {
            unsigned* const counter = params_.counters + joint_.counter;
            shared_.arrived = atomicAdd(counter, 1u);
            if (shared_.arrived == joint_.count - 1u) *counter = 0;
            __threadfence();
        }
        barrier();
        return shared_.arrived == joint_.count - 1u;
    }

    // Each warp takes 64 columns of a row: its lanes know the weights of 32 pieces at a time, and two columns each.
    __device__ __forceinline__ void add_pieces() const {
        constexpr int kParts = kPairs / sm90::kWarpThreads;
        const int rows = least(params_.rows.count - unit_.first_row, params_.rows.per_unit);
#pragma unroll 1
        for (int line = warp_; line < rows * kParts; line += kConfig.consumer_warps) {
            const int row = line / kParts;
            const int pair = line % kParts * sm90::kWarpThreads + lane_;
            const float2* const first = place_of(0);
            float maximum = sm90::minus_infinity();
            for (int piece = lane_; piece < joint_.count; piece += sm90::kWarpThreads) {
                maximum = fmaxf(maximum, __ldcg(first + piece * place_pairs() + row).x);
            }
            maximum = sm90::warp_max(maximum);
            float sum = 0.0f;
            float2 sums = {0.0f, 0.0f};
            for (int begin = 0; begin < joint_.count; begin += sm90::kWarpThreads) {
                const int own = least(begin + lane_, joint_.count - 1);
                const float2 statistics = __ldcg(first + own * place_pairs() + row);
                const float factor = begin + lane_ < joint_.count ? weight(statistics.x, centre_of(maximum)) : 0.0f;
                sum += statistics.y * factor;
                const float2* part = first + begin * place_pairs() + params_.rows.per_unit + row * kPairs + pair;
                const int pieces = least(joint_.count - begin, sm90::kWarpThreads);
#pragma unroll 4
                for (int i = 0; i < pieces; ++i, part += place_pairs()) {
                    const float2 columns = __ldcg(part);
                    const float other = __shfl_sync(sm90::kWholeWarp, factor, i);
                    sums.x = fmaf(columns.x, other, sums.x);
                    sums.y = fmaf(columns.y, other, sums.y);
                }
            }
            store(row, pair, {{maximum, sm90::warp_sum(sum)}, sums});
        }
    }

    // A row that saw no key gives 0 and -infinity.
    __device__ __forceinline__ void store(int row, int pair, const Columns& columns) const {
        const int query = divide(unit_.first_row + row, params_.rows.group);
        const int head = (unit_.kv_head - query) * params_.rows.group + unit_.first_row + row;
        const FlashcoreOperand& out = params_.out;
        auto* const row_of_out = static_cast<Element*>(out.data) + unit_.sequence * out.batch_stride +
                                 query * out.sequence_stride + head * out.head_stride;
        const auto [maximum, sum] = columns.statistics;
        const float inverse = sum == 0.0f ? 0.0f : __fdividef(1.0f, sum);
        auto* const words = rehearsal_ ? reinterpret_cast<uint32_t*>(place_of(0)) : reinterpret_cast<uint32_t*>(row_of_out);
        words[pair] = ptx::pack<Element>(columns.sums.x * inverse, columns.sums.y * inverse);
        if (params_.lse == nullptr || pair != 0 || rehearsal_) return;
        const int64_t heads = static_cast<int64_t>(params_.kv_heads) * params_.rows.group;
        const float value = fmaf(maximum, params_.scale, natural_log(sum));
        params_.lse[(unit_.sequence * heads + head) * params_.rows.sq + query] = sum == 0.0f ? sm90::minus_infinity() : value;
    }

    const Params& params_;
    SharedStorage<Tuning>& shared_;
    Unit unit_;
    Joint joint_;
    bool rehearsal_;  // everything is done, but what comes of it goes to a spare place of the workspace
    int warp_;
    int lane_;
};

}  // namespace flashcore::decode
