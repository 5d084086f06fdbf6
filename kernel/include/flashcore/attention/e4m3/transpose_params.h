// Parameters of the kernels that transpose values of 64, 128 and 256 columns for E4M3 (attention/e4m3/transpose.cuh).
#pragma once

#include "flashcore/attention/transpose_params.h"

namespace flashcore::attention::e4m3 {

struct TransposeParams : attention::TransposeParams {
    int head_dim;
};
using TransposeVariant = Variant<TransposeConfig, TransposeParams>;

}  // namespace flashcore::attention::e4m3
