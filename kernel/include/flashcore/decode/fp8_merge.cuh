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
    using Base::barrier, Base::kConfig, Base::weight;
    using Base::shared_, Base::rows_, Base::work_tile_, Base::fixup_, Base::warp_, Base::lane_;
    using State = Fp8State<kConfig.head_dim, kHalves>;

public:
    using Base::Base;

    // As Merge::run.
    __device__ __forceinline__ void run(const State& state) const {
        store_statistics(state);
        barrier();
#pragma unroll 1
        for (int pass = 0;; ++pass) {
            const bool over_splits = pass == kHalves;
            if (!over_splits) {
                if (pass == 0) {
                    store_sums<0>(state);
                } else {
                    store_sums<kHalves - 1>(state);
                }
                barrier();
            }
            this->add_up(pass, over_splits);
            if (over_splits) return;
            if (pass + 1 < kHalves) {
                barrier();
            } else if (fixup_.split_count == 1 || !this->is_last()) {
                return;
            }
        }
    }

private:
    __device__ __forceinline__ int quad() const { return lane_ / sm90::kQuadLanes; }
    // The first of a lane's rows among eight.
    __device__ __forceinline__ int first_row() const { return lane_ % sm90::kQuadLanes * kFp8LaneRows; }

    __device__ __forceinline__ float4& statistics_of(int warp, int half) const {
        return *reinterpret_cast<float4*>(&shared_.statistics[warp][half * kMergeRows + first_row()]);
    }

    __device__ __forceinline__ void store_statistics(const State& state) const {
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
            const float sums[kFp8LaneRows] = {column_sum(state.row_sum[half][0]), column_sum(state.row_sum[half][1])};
            if (quad() == 0) statistics_of(warp_, half) = {state.row_max[half][0], sums[0], state.row_max[half][1], sums[1]};
        }
    }

    // The weights of this warp's sums of a lane's rows, relative to the max of all warps of its row tile. Each quad reads one
    // of these warps. The first of the warps stores the total.
    __device__ __forceinline__ float2 warp_weights(const State& state, int half) const {
        const int row_tile = rows_.tile_of(warp_);
        const int warp = row_tile + (quad() << rows_.tile_shift);
        float4 read = {sm90::minus_infinity(), 0.0f, sm90::minus_infinity(), 0.0f};
        if (warp < kConfig.consumer_warps) read = statistics_of(warp, half);
        const float row_max[kFp8LaneRows] = {column_max(read.x), column_max(read.z)};
        const float sums[kFp8LaneRows] = {column_sum(read.y * weight(read.x, finite_max(row_max[0]))),
                                          column_sum(read.w * weight(read.z, finite_max(row_max[1])))};
        if (warp_ == row_tile && quad() == 0) {
            *reinterpret_cast<float4*>(&shared_.totals[row_tile][half * kMergeRows + first_row()]) = {row_max[0], sums[0],
                                                                                                    row_max[1], sums[1]};
        }
        return {weight(state.row_max[half][0], finite_max(row_max[0])), weight(state.row_max[half][1], finite_max(row_max[1]))};
    }

    template <int kHalf>
    __device__ __forceinline__ void store_sums(const State& state) const {
        const float2 factors = warp_weights(state, kHalf);
        const int row = work_tile_.first_row + rows_.tile_of(warp_) * kRowTileRows + kHalf * kMergeRows + first_row();
#pragma unroll
        for (int r = 0; r < kFp8LaneRows; ++r) {
            if (!rows_.exists(row + r)) continue;
            const float factor = r == 0 ? factors.x : factors.y;
            auto* const columns = reinterpret_cast<float2*>(shared_.sums[warp_][first_row() + r]) + quad();
#pragma unroll
            for (int unit = 0; unit < State::kUnits; ++unit) {
                const float* output = state.output[kHalf][unit];
                columns[unit * (kFp8UnitColumns / 2)] = {output[r] * factor, output[2 + r] * factor};
            }
        }
    }
};

}  // namespace flashcore::decode
