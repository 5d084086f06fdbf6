// Tuning of one variant of attention in E4M3 whose scores and products share registers. Host and device.
#pragma once

#include "flashcore/attention/config.h"

namespace flashcore::attention::e4m3 {

// How scores become probabilities.
struct Softmax {
    int offset;         // probabilities are stored times 2^offset
    int polynomials;    // exponentials of 16 that the FMA pipes compute
    bool rounded_sums;  // divide by the sum of the rounded probabilities, which ones behind the values give
    bool half_packing;  // round to E4M3 by way of fp16, with integer instructions
    bool block_scales = false;  // factors of blocks of rows (attention/e4m3/block_params.h)
};

// Probabilities before they are packed are smaller by this power of two.
constexpr int kHalfShift = 8;
FLASHCORE_HOST_DEVICE constexpr int pack_shift(const Softmax& softmax) { return softmax.half_packing ? kHalfShift : 0; }

// The columns of one PV. Its products share their registers with the scores of as many keys.
struct Products {
    int columns;
};

constexpr int kTileN = 128;   // keys of a KV block: one row of a swizzle atom in the transposed values
constexpr int kAtomColumns = 128;
constexpr int kOnesBytes = 1024;  // a swizzle atom of ones behind each tile of values

// Columns of queries and keys in shared memory. TMA fills those beyond the head dimension with zeros.
FLASHCORE_HOST_DEVICE constexpr int padded_columns(const Config& config) {
    return config.head_dim < kAtomColumns ? kAtomColumns : config.head_dim;
}
FLASHCORE_HOST_DEVICE constexpr int query_bytes(const Config& config) { return kWarpgroupRows * padded_columns(config); }
FLASHCORE_HOST_DEVICE constexpr int key_bytes(const Config& config) { return kTileN * padded_columns(config); }
FLASHCORE_HOST_DEVICE constexpr int value_bytes(const Config& config) { return kTileN * config.head_dim; }
FLASHCORE_HOST_DEVICE constexpr int value_slot_bytes(const Config& config, const Softmax& softmax) {
    return value_bytes(config) + (softmax.rounded_sums ? kOnesBytes : 0);
}
FLASHCORE_HOST_DEVICE constexpr int shared_bytes(const Config& config, const Softmax& softmax) {
    return config.q_stages * config.consumer_warpgroups * query_bytes(config) +
           config.kv_stages * (key_bytes(config) + value_slot_bytes(config, softmax)) + kBarrierBytes;
}

// As in attention/config.h. The output of D=256 alone takes 128 registers of a lane, so its producer has fewer. One that reads the
// factors of blocks needs 40.
FLASHCORE_HOST_DEVICE constexpr int loading_registers(const Config& config, const Softmax& softmax) {
    return config.head_dim <= 128 ? producer_registers(config) : softmax.block_scales ? 40 : 24;
}
FLASHCORE_HOST_DEVICE constexpr int computing_registers(const Config& config, const Softmax& softmax) {
    return config.head_dim <= 128 ? consumer_registers(config) : softmax.block_scales ? 232 : 240;
}

}  // namespace flashcore::attention::e4m3
