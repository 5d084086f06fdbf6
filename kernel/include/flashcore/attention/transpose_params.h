// Parameters of the kernels that transpose values for E4M3 (attention/e4m3/transpose.cuh).
#pragma once

#include "flashcore/attention/params.h"

namespace flashcore::attention {

struct TransposeConfig {
    int threads;
};

struct TransposeParams {
    const void* v;
    int64_t batch_stride;  // elements
    int64_t sequence_stride;
    int64_t head_stride;
    uint8_t* values;
    Descale v_descale;
    int sk;
    int blocks;  // of keys, of a head
    int kv_heads;
    DType source;  // of v
};

using TransposeVariant = Variant<TransposeConfig, TransposeParams>;

}  // namespace flashcore::attention
