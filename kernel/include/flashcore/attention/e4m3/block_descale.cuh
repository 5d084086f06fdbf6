// Reads the factors of blocks (attention/e4m3/block_params.h).
#pragma once

#include "flashcore/attention/e4m3/block_params.h"
#include "flashcore/attention/fp8.cuh"

namespace flashcore::attention::e4m3 {

// The factors of one head's blocks.
struct HeadFactors {
    const float* data;
    int64_t block_stride;

    __device__ __forceinline__ HeadFactors(const BlockDescale& factors, int batch, int head)
        : data(factors.data == nullptr ? nullptr : factors.data + batch * factors.batch_stride + head * factors.head_stride),
          block_stride(factors.block_stride) {}

    __device__ __forceinline__ float operator[](int block) const { return data == nullptr ? 1.0f : __ldg(data + block * block_stride); }
};

}  // namespace flashcore::attention::e4m3
