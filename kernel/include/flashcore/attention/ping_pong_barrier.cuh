// The ping-pong barrier (warp_scheduler_barrier in FlashAttention-3). Consumer warpgroups issue their mmas in order, so that the
// softmax of one overlaps with the mmas of the others.
#pragma once

#include "flashcore/attention/config.h"
#include "flashcore/ptx/warpgroup.cuh"

namespace flashcore::attention {

constexpr int kFirstPingPongBarrier = 1;  // the consumers own the named barriers from here on, one each. 0 is __syncthreads
constexpr int kFirstVerifyBarrier = 4;

template <class Tuning>
struct PingPongBarrier {
    static constexpr bool kEnabled = Tuning::config.ping_pong_barrier;
    static constexpr int kConsumers = Tuning::config.consumer_warpgroups;
    static constexpr int kThreads = 2 * kWarpgroupThreads;  // the waiting warpgroup and the arriving one
    int warpgroup;

    // The last warpgroup arrives first. The first one waits once more at the end, so that no barrier stays half full.
    __device__ __forceinline__ void init() const {
        if (warpgroup == kConsumers - 1) arrive_next();
    }
    __device__ __forceinline__ void drain() const {
        if (warpgroup == 0) sync();
    }
    __device__ __forceinline__ void sync() const {
        if constexpr (kEnabled) ptx::named_barrier_sync(kFirstPingPongBarrier + warpgroup, kThreads);
    }
    __device__ __forceinline__ void arrive_next() const {
        if constexpr (kEnabled) ptx::named_barrier_arrive(kFirstPingPongBarrier + (warpgroup + 1) % kConsumers, kThreads);
    }
};

}  // namespace flashcore::attention
