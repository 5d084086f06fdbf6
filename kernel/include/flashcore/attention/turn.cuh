// The order in which consumer warpgroups issue their products, so that one's softmax runs beneath the others' products.
#pragma once

#include "flashcore/attention/config.h"
#include "flashcore/ptx/warpgroup.cuh"

namespace flashcore::attention {

constexpr int kTurnBarrier = 1;  // named barriers from here on belong to the consumers, one for each; 0 is __syncthreads
constexpr int kVoteBarrier = 4;

template <class Tuning>
struct Turn {
    static constexpr bool kTaken = Tuning::config.turns;
    static constexpr int kConsumers = Tuning::config.consumer_warpgroups;
    static constexpr int kThreads = 2 * kWarpgroupThreads;  // the one that waits and the one that passes
    int warpgroup;

    // The first turn is given by the last warpgroup, and taken back at the end so that no barrier is left half full.
    __device__ __forceinline__ void open() const {
        if (warpgroup == kConsumers - 1) pass();
    }
    __device__ __forceinline__ void close() const {
        if (warpgroup == 0) take();
    }
    __device__ __forceinline__ void take() const {
        if constexpr (kTaken) ptx::named_barrier_sync(kTurnBarrier + warpgroup, kThreads);
    }
    __device__ __forceinline__ void pass() const {
        if constexpr (kTaken) ptx::named_barrier_arrive(kTurnBarrier + (warpgroup + 1) % kConsumers, kThreads);
    }
};

}  // namespace flashcore::attention
