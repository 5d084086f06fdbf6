// Tuning of one attention variant and what follows from it: threads, registers, shared memory. Host and device.
#pragma once

#include "flashcore/core/dtype.h"
#include "flashcore/core/host_device.h"

namespace flashcore::attention {

using flashcore::DType;

struct Config {
    int head_dim;
    DType dtype;
    bool causal;
    int tile_m;                  // query rows of a CTA
    int tile_n;                  // keys of one step
    int q_stages;                // query tiles in shared memory
    int kv_stages;               // key tiles, and value tiles, in shared memory
    int consumer_warpgroups;     // beside the one producer warpgroup
    bool ping_pong_barrier;      // consumer warpgroups issue their products one after the other
    bool query_in_registers;     // read from shared memory once for each tile and not once for each step
    bool tma_store_epilogue;     // leaves through the slot of its query and the copy engine, not straight from the registers
    bool stale_max_speculation;  // exponentials first, and the maximum only where they turn out too large
    bool recompute_qk;           // and then from the tensor cores once more, so that no register keeps them meanwhile
};

constexpr int kWarpThreads = 32;
constexpr int kWarpgroupWarps = 4;
constexpr int kWarpgroupThreads = kWarpThreads * kWarpgroupWarps;
constexpr int kWarpgroupRows = 64;  // query rows of one wgmma
constexpr int kWarpRows = kWarpgroupRows / kWarpgroupWarps;
constexpr int kBytesPerElement = 2;
constexpr int kBarrierBytes = 1024;  // one swizzle period after the tiles, so that their sum stays a multiple of it

FLASHCORE_HOST_DEVICE constexpr int threads(const Config& config) { return (1 + config.consumer_warpgroups) * kWarpgroupThreads; }
FLASHCORE_HOST_DEVICE constexpr int consumer_warps(const Config& config) { return config.consumer_warpgroups * kWarpgroupWarps; }

// A query tile is made of one part for each consumer warpgroup, which loads and frees it alone.
FLASHCORE_HOST_DEVICE constexpr int query_part_bytes(const Config& config) {
    return kWarpgroupRows * config.head_dim * kBytesPerElement;
}
FLASHCORE_HOST_DEVICE constexpr int key_tile_bytes(const Config& config) {
    return config.tile_n * config.head_dim * kBytesPerElement;
}
FLASHCORE_HOST_DEVICE constexpr int shared_bytes(const Config& config) {
    return config.q_stages * config.consumer_warpgroups * query_part_bytes(config) +
           2 * config.kv_stages * key_tile_bytes(config) + kBarrierBytes;
}

// setmaxnreg moves registers between the roles, within what the launch allocated: the register file divided by the threads of
// the CTA, in steps of 8. More than that and the last warpgroup to ask waits for ever.
constexpr int kRegisterFile = 65536;
constexpr int kRegisterStep = 8;
FLASHCORE_HOST_DEVICE constexpr int registers_at_launch(const Config& config) {
    return kRegisterFile / threads(config) / kRegisterStep * kRegisterStep;
}
FLASHCORE_HOST_DEVICE constexpr int producer_registers(const Config& config) { return config.consumer_warpgroups == 2 ? 40 : 32; }
FLASHCORE_HOST_DEVICE constexpr int consumer_registers(const Config& config) {
    return config.consumer_warpgroups == 2 ? 232 : 160;
}

}  // namespace flashcore::attention
