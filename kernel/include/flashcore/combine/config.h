// Tuning, parameters and work items of the merge of partial results, shared by host and device.
#pragma once

#include <cstdint>

#include "flashcore/core/host_device.h"
#include "flashcore/core/variant.h"

namespace flashcore::combine {

constexpr int kWarpLanes = 32;
constexpr int kFewestLanes = 8;  // of a row. Idle ones do less harm than loads in small batches
constexpr int kVectorWidth = 4;  // floats in one 16-byte access

enum class OutType : int { kFp16 = 0, kBf16 = 1, kFp32 = 2 };

FLASHCORE_HOST_DEVICE constexpr int bytes_of(OutType type) { return type == OutType::kFp32 ? 4 : 2; }

struct Config {
    int threads;
    int ctas_per_multiprocessor;  // fit into its registers
    int splits_in_flight;         // loads in one turn of the loop
};

// Strides count elements.
struct Strides {
    int64_t split;
    int64_t batch;
    int64_t sequence;
    int64_t head;
};

struct Params {
    const float* partial;
    const float* lse_partial;
    void* out;
    float* lse;
    Strides partial_strides;
    Strides lse_strides;
    Strides out_strides;
    int splits;
    int sequence;
    int heads;
    int head_dim;
    int lane_shift;  // log2 of the lanes of a row
    int blocks;      // of a row's columns, one access per lane each
    int items;       // rows times blocks
    OutType out_type;
    bool vectors;  // 16-byte accesses
};

// Prefers lanes that have no idle one.
FLASHCORE_HOST_DEVICE constexpr int choose_lane_shift(int64_t accesses) {
    int shift = 5;
    while (shift > 3 && accesses % (int64_t{1} << shift) != 0) --shift;
    if (accesses % (int64_t{1} << shift) == 0) return shift;
    while (shift < 5 && (int64_t{1} << shift) < accesses) ++shift;
    return shift;
}
static_assert(1 << choose_lane_shift(1) == kFewestLanes && 1 << choose_lane_shift(kWarpLanes) == kWarpLanes);
static_assert(choose_lane_shift(24) == 3 && choose_lane_shift(48) == 4);
static_assert(choose_lane_shift(20) == 5 && choose_lane_shift(10) == 4);

using CombineVariant = Variant<Config, Params>;

}  // namespace flashcore::combine
