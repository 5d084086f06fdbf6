// Parameters of the kernel that transposes values of 64, 128 and 256 columns for E4M3 (attention/e4m3/transpose.cuh).
#pragma once

#include "flashcore/attention/transpose_params.h"
#include "flashcore/attention/varlen.h"

namespace flashcore::attention::e4m3 {

// A varlen batch, which the first CTA lays out for attention. Its values count as one sequence of `blocks` blocks.
struct PackedBatch : VarlenBatch {
    int* sequences;  // ForwardParams::sequences
};

struct TransposeParams : attention::TransposeParams {
    int head_dim;
    PackedBatch packed;  // null sequence_infos: sequences of equal length
};
using TransposeVariant = Variant<TransposeConfig, TransposeParams>;

}  // namespace flashcore::attention::e4m3
