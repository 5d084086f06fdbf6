// Tuning of one attention variant and what it implies: threads, registers, shared memory. Host and device.
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
    int tile_n;                  // keys of a KV block (n_block)
    int q_stages;                // query tiles in shared memory
    int kv_stages;               // KV blocks in shared memory, for keys and values each
    int consumer_warpgroups;     // in addition to the producer warpgroup
    bool ping_pong_barrier;      // consumer warpgroups issue their mmas one after the other
    bool query_in_registers;     // read from shared memory once per tile, not once per KV iteration
    bool tma_store_epilogue;     // output goes through the shared memory of its query and a TMA store, not from registers
    bool stale_max_speculation;  // exponentials with the old row max, a new max only if they are too large
    bool recompute_qk;           // if they are, compute QK again instead of keeping the scores in registers
    bool paged_kv;               // keys and values are in pages, which a whole warp loads
    bool local = false;          // the mask is a window. Sinks are possible. `causal` is true, for the positions of queries
    bool softcap = false;        // scores are capped, only with `local`
};

constexpr int kWarpThreads = 32;
constexpr int kWarpgroupWarps = 4;
constexpr int kWarpgroupThreads = kWarpThreads * kWarpgroupWarps;
constexpr int kWarpgroupRows = 64;  // query rows of one wgmma
constexpr int kWarpRows = kWarpgroupRows / kWarpgroupWarps;
constexpr int kBytesPerElement = 2;  // of the 16-bit types
constexpr int kBarrierBytes = 1024;  // one swizzle atom after the tiles, so that the total stays a multiple of it

FLASHCORE_HOST_DEVICE constexpr int threads(const Config& config) { return (1 + config.consumer_warpgroups) * kWarpgroupThreads; }
FLASHCORE_HOST_DEVICE constexpr int consumer_warps(const Config& config) { return config.consumer_warpgroups * kWarpgroupWarps; }

// Each consumer warpgroup loads and releases its own part of a query tile.
FLASHCORE_HOST_DEVICE constexpr int query_part_bytes(const Config& config) {
    return kWarpgroupRows * config.head_dim * bytes_of(config.dtype);
}
FLASHCORE_HOST_DEVICE constexpr int key_tile_bytes(const Config& config) {
    return config.tile_n * config.head_dim * bytes_of(config.dtype);
}
FLASHCORE_HOST_DEVICE constexpr int shared_bytes(const Config& config) {
    return config.q_stages * config.consumer_warpgroups * query_part_bytes(config) +
           2 * config.kv_stages * key_tile_bytes(config) + kBarrierBytes;
}

// setmaxnreg moves registers between the roles. The launch allocates the register file divided by the threads of the CTA, in
// steps of 8. If the roles ask for more in total, the last warpgroup waits forever.
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
