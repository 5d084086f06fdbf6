// A ring of shared-memory slots, each with a full and an empty barrier.
#pragma once

#include <cstdint>

#include "flashcore/ptx/mbarrier.cuh"

namespace flashcore::sm90 {

// Tells the compiler that a value is the same in the whole warp, so that results stay in uniform registers. Matrix descriptors
// must be there. Without this, a loop whose trip count came from memory computes them in every lane.
__device__ __forceinline__ int uniform(int value) { return __shfl_sync(0xFFFFFFFFu, value, 0); }

template <int kSlots>
struct RingBarriers {
    uint64_t full[kSlots];   // the producers' arrivals and the bytes of the copies
    uint64_t empty[kSlots];  // one arrival per consumer warp

    __device__ __forceinline__ void init(int consumer_warps, int producers = 1) {
        for (int i = 0; i < kSlots; ++i) {
            ptx::mbarrier_init(&full[i], producers);
            ptx::mbarrier_init(&empty[i], consumer_warps);
        }
    }
};

// The position of one role in a ring. A new barrier counts as having completed parity 1. So the producer's first waits, on the
// opposite parity, return at once. A consumer's first wait blocks until the first copy has landed.
template <int kSlots>
struct RingPosition {
    int slot = 0;
    uint32_t parity = 0;

    __device__ __forceinline__ void advance() {
        if (++slot == kSlots) {
            slot = 0;
            parity ^= 1;
        }
    }

    __device__ __forceinline__ void make_uniform() {
        if constexpr (kSlots > 1) slot = uniform(slot);
        parity = uniform(static_cast<int>(parity));
    }

    __device__ __forceinline__ void wait_empty(RingBarriers<kSlots>& ring) const {
        ptx::mbarrier_wait(&ring.empty[slot], parity ^ 1);
    }

    // For the producer: expects the bytes of this slot, 0 if no copy fills it, and returns the barrier that the copies complete.
    __device__ __forceinline__ uint64_t* arrive_and_expect_tx(RingBarriers<kSlots>& ring, uint32_t bytes) const {
        ptx::mbarrier_arrive_expect_tx(&ring.full[slot], bytes);
        return &ring.full[slot];
    }

    __device__ __forceinline__ void wait_full(RingBarriers<kSlots>& ring) const { ptx::mbarrier_wait(&ring.full[slot], parity); }

    // For a consumer: every warp arrives for itself, because a wgmma wait covers only the warp that waited.
    __device__ __forceinline__ void release(RingBarriers<kSlots>& ring, bool first_lane) const {
        if (first_lane) ptx::mbarrier_arrive(&ring.empty[slot]);
    }
};

}  // namespace flashcore::sm90
