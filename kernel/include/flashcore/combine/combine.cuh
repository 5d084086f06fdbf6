// Merges partial attention results. Every byte crosses the memory bus once, in 16-byte accesses where addresses allow it.
//
// 8 to 32 lanes share a row, or a block of its columns. They read its log-sum-exps together and get the weights by shuffles,
// without shared memory or barriers. Each lane adds its columns in the order of the splits, so the result is always the same.
#pragma once

#include <cstdint>

#include "flashcore/combine/config.h"
#include "flashcore/core/launch.cuh"
#include "flashcore/core/logarithm.cuh"
#include "flashcore/ptx/math.cuh"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::combine {

constexpr float kLog2E = 1.44269504088896341f;

struct Row {
    int batch;
    int sequence;
    int head;

    __device__ __forceinline__ int64_t offset(const Strides& strides) const {
        return batch * strides.batch + sequence * strides.sequence + head * strides.head;
    }
};

__device__ __forceinline__ Row find_row(const Params& params, int row) {
    const int position = row / params.heads;
    return {position / params.sequence, position % params.sequence, row % params.heads};
}

template <int kWidth>
struct Columns {
    float values[kWidth] = {};

    __device__ __forceinline__ void load(const float* from) {
        if constexpr (kWidth == kVectorWidth) {
            const float4 vector = *reinterpret_cast<const float4*>(from);
            values[0] = vector.x, values[1] = vector.y, values[2] = vector.z, values[3] = vector.w;
        } else {
            values[0] = *from;
        }
    }

    __device__ __forceinline__ void store(void* out, int64_t index, OutType type) const {
        if (type == OutType::kFp32) {
            float* const to = static_cast<float*>(out) + index;
            if constexpr (kWidth == kVectorWidth) {
                *reinterpret_cast<float4*>(to) = make_float4(values[0], values[1], values[2], values[3]);
            } else {
                *to = values[0];
            }
        } else if (type == OutType::kFp16) {
            store_packed<__half>(static_cast<uint16_t*>(out) + index);
        } else {
            store_packed<__nv_bfloat16>(static_cast<uint16_t*>(out) + index);
        }
    }

private:
    template <class Element>
    __device__ __forceinline__ void store_packed(uint16_t* to) const {
        if constexpr (kWidth == kVectorWidth) {
            *reinterpret_cast<uint2*>(to) =
                make_uint2(ptx::pack<Element>(values[0], values[1]), ptx::pack<Element>(values[2], values[3]));
        } else {
            *to = static_cast<uint16_t>(ptx::pack<Element>(values[0], 0.0f));
        }
    }
};

// The log-sum-exps of one row. A lane reads every lanes-th split.
class Weights {
public:
    __device__ __forceinline__ Weights(const Params& params, const float* lse, int lane)
        : lse_(lse), stride_(params.lse_strides.split), splits_(params.splits), lanes_(1 << params.lane_shift), lane_(lane) {
        first_ = load(lane_);
        max_ = first_;
        for (int split = lane_ + lanes_; split < splits_; split += lanes_) max_ = fmaxf(max_, load(split));
        for (int step = 1; step < lanes_; step *= 2) max_ = fmaxf(max_, __shfl_xor_sync(sm90::kFullWarpMask, max_, step));
        sum_ = exponential(first_);
        for (int split = lane_ + lanes_; split < splits_; split += lanes_) sum_ += exponential(load(split));
        for (int step = 1; step < lanes_; step *= 2) sum_ += __shfl_xor_sync(sm90::kFullWarpMask, sum_, step);
        inverse_ = sum_ > 0.0f ? 1.0f / sum_ : 0.0f;
    }

    // The weight of this lane's split from this one on. Zero if there is none, or if a log-sum-exp of the row is NaN.
    __device__ __forceinline__ float of(int begin) const {
        const float weight = exponential(begin == 0 ? first_ : load(begin + lane_)) * inverse_;
        return weight > 0.0f ? weight : 0.0f;
    }

    // -inf, if all are.
    __device__ __forceinline__ float total() const { return max_ + natural_log(sum_); }

private:
    __device__ __forceinline__ float load(int split) const {
        return split < splits_ ? lse_[split * stride_] : sm90::minus_infinity();
    }

    // -inf minus -inf would be NaN.
    __device__ __forceinline__ float exponential(float lse) const {
        return ptx::exp2_approx((lse - (max_ == sm90::minus_infinity() ? 0.0f : max_)) * kLog2E);
    }

    const float* lse_;
    int64_t stride_;
    int splits_;
    int lanes_;
    int lane_;
    float first_;  // this lane's first one
    float max_;
    float sum_;  // of the exponentials, relative to the max
    float inverse_;
};

// Splits without a weight are not read: their memory may never have been written. A lane without columns only takes part in
// shuffles.
template <int kBatch, int kWidth>
__device__ __forceinline__ Columns<kWidth> add_up(const Params& params, const Weights& weights, const float* partial, int lane,
                                                  bool has_columns) {
    const int lanes = 1 << params.lane_shift;
    const int group_first = static_cast<int>(threadIdx.x) % kWarpLanes - lane;
    const int64_t stride = params.partial_strides.split;
    Columns<kWidth> total;
#pragma unroll 1
    for (int begin = 0; begin < params.splits; begin += lanes) {
        const float own = weights.of(begin);
        const int count = min(lanes, params.splits - begin);
#pragma unroll 1
        for (int first = 0; first < count; first += kBatch) {
            Columns<kWidth> columns[kBatch];
            float factors[kBatch];
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
                factors[i] = __shfl_sync(sm90::kFullWarpMask, own, group_first + first + i);
                if (has_columns && factors[i] > 0.0f) columns[i].load(partial + i * stride);
            }
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
#pragma unroll
                for (int j = 0; j < kWidth; ++j) total.values[j] = fmaf(factors[i], columns[i].values[j], total.values[j]);
            }
            partial += kBatch * stride;
        }
    }
    return total;
}

template <class Tuning, int kWidth>
__device__ __forceinline__ void combine_rows(const Params& params) {
    static_assert(kFewestLanes % Tuning::config.splits_in_flight == 0, "a batch has the weights of one turn");
    constexpr int kThreads = Tuning::config.threads;
    const int lane = threadIdx.x & ((1 << params.lane_shift) - 1);
    const int64_t threads = static_cast<int64_t>(params.items) << params.lane_shift;
    const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads; first < threads; first += stride) {
        const int64_t item = (first + threadIdx.x) >> params.lane_shift;
        const bool exists = item < params.items;  // if not, the lanes repeat the last item for their warp's shuffles
        const int work = exists ? static_cast<int>(item) : params.items - 1;
        const int block = work % params.blocks;
        const int column = ((block << params.lane_shift) + lane) * kWidth;
        const Row row = find_row(params, work / params.blocks);
        const Weights weights(params, params.lse_partial + row.offset(params.lse_strides), lane);
        const bool has_columns = exists && column < params.head_dim;
        const float* const partial = params.partial + row.offset(params.partial_strides) + column;
        const auto total = add_up<Tuning::config.splits_in_flight, kWidth>(params, weights, partial, lane, has_columns);
        if (has_columns) total.store(params.out, row.offset(params.out_strides) + column, params.out_type);
        if (exists && block == 0 && lane == 0) {
            const int64_t position = static_cast<int64_t>(row.batch) * params.heads + row.head;
            params.lse[position * params.sequence + row.sequence] = weights.total();
        }
    }
}

template <class Tuning>
__device__ __forceinline__ void combine(const Params& params) {
    if (params.vectors) {
        combine_rows<Tuning, kVectorWidth>(params);
    } else {
        combine_rows<Tuning, 1>(params);
    }
}

}  // namespace flashcore::combine
