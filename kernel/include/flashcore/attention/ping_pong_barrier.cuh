// The order in which consumer warpgroups issue their products, so that one's softmax runs beneath the others' products.
#pragma once

#include "flashcore/attention/config.h"
#include "flashcore/ptx/warpgroup.cuh"

namespace flashcore::attention {

constexpr int kFirstPingPongBarrier = 1;  // named barriers from here on belong to the consumers, one for each; 0 is __syncthreads
constexpr int kFirstVerifyBarrier = 4;

template <class Tuning>
struct PingPongBarrier {
    static constexpr bool kEnabled = Tuning::config.ping_pong_barrier;
    static constexpr int kConsumers = Tuning::config.consumer_warpgroups;
    static constexpr int kThreads = 2 * kWarpgroupThreads;  // the one that waits and the one that passes
    int warpgroup;

    // The first turn is given by the last warpgroup, and taken back at the end so that no barrier is left half full.
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
