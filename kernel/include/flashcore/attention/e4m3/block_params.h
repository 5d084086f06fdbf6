// Parameters of attention in E4M3 with one factor for each block of rows.
#pragma once

#include <type_traits>

#include "flashcore/attention/e4m3/forward_params.h"

namespace flashcore::attention::e4m3 {

constexpr int kFactorRows = 64;   // queries of a factor: the rows of a warpgroup
constexpr int kFactorKeys = 128;  // keys and values of a factor: a KV block

// One factor of each block of rows of each (batch, head), at any strides. With a block stride of 0, all blocks share one. Null: 1.
struct BlockDescale {
    const float* data;
    int64_t batch_stride;
    int64_t head_stride;
    int64_t block_stride;
};

// The factors of Fp8Params are not read.
struct BlockParams : Fp8Params {
    BlockDescale q_blocks;
    BlockDescale k_blocks;
    BlockDescale v_blocks;
    int heads_per_q_factor;
};
using BlockVariant = Variant<Config, BlockParams>;

template <class Tuning>
using ParamsFor = std::conditional_t<Tuning::softmax.block_scales, BlockParams, ForwardParams>;

}  // namespace flashcore::attention::e4m3
