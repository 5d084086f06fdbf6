// Parameters of attention in E4M3 with one factor of each (sequence, KV head). Host and device.
#pragma once

#include "flashcore/attention/params.h"
#include "flashcore/attention/value_order.h"

namespace flashcore::attention::e4m3 {

struct ForwardParams : Fp8Params {
    const int* sequences;  // which sequence each of `sequence_infos` belongs to. Null like these
    int head_bits;         // of the number of a head. Consumers get the sequence of the factors in the bits above
};
using ForwardVariant = Variant<Config, ForwardParams>;

FLASHCORE_HOST_DEVICE constexpr int bits_of_heads(int64_t heads) {
    int bits = 0;
    while (int64_t{1} << bits < heads) ++bits;
    return bits;
}

// The transposed values of a varlen batch: all blocks of a column follow each other. Each sequence begins a block of its own, which
// its number and its first row give without a sum over the lengths. A sequence of n keys has n / 128 blocks, rounded up.
FLASHCORE_HOST_DEVICE constexpr int first_value_block(int first_row, int sequence) { return first_row / kValueKeys + sequence; }
FLASHCORE_HOST_DEVICE constexpr int64_t value_blocks(int64_t rows, int64_t sequences) { return rows / kValueKeys + sequences; }

}  // namespace flashcore::attention::e4m3
