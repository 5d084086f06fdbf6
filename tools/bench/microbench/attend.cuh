// A KV iteration of attention without loads, masks and edges. Only the schedule limits the pipes.
#pragma once

#include <cuda_fp16.h>

#include "flashcore/sm90/smem_descriptor.cuh"
#include "harness.cuh"
#include "scalar.cuh"
#include "wgmma_shapes.cuh"

namespace microbench {

// kFree: the softmax does not depend on the mmas of its iteration. kEarly: it waits for its scores, and for the PV of the
// previous iteration before the exponentials. kLate: it waits for that PV after the exponentials, and holds twice the
// probabilities.
enum class Order { kFree, kEarly, kLate };

struct Step {
    int head_dim;
    int keys;
    int warpgroups;
    Order order;
    bool turns;               // named barriers order the mmas of the warpgroups
    bool query_in_registers;  // otherwise in shared memory
    Scalar softmax;
};

__host__ __device__ constexpr int attend_shared_bytes(const Step& step) {
    return 2 * step.head_dim * (64 * step.warpgroups + 2 * step.keys);
}
// Clocks that the tensor cores need for one iteration of one warpgroup.
__host__ __device__ constexpr double attend_tensor_clocks(const Step& step) { return 4.0 * 64 * step.keys * step.head_dim / 4096; }

__device__ __forceinline__ void barrier_sync(int barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(2 * kWarpgroup) : "memory");
}
__device__ __forceinline__ void barrier_arrive(int barrier) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(2 * kWarpgroup) : "memory");
}

template <class S>
class Attend {
    static constexpr Step kStep = S::step;
    using Scores = Wgmma<kStep.keys>;
    using Output = Wgmma<kStep.head_dim>;

public:
    __device__ __forceinline__ Attend(uint8_t* memory, int warpgroup, float scale) : warpgroup_(warpgroup) {
        softmax_.offset[0] = scale;
        softmax_.offset[1] = 2.0f * scale;
        namespace sm90 = flashcore::sm90;
        query_ = sm90::k_major_descriptor(memory + warpgroup * sm90::atom_column_bytes(64));
        uint8_t* keys = memory + sm90::tile_bytes<__half>(64 * kStep.warpgroups, kStep.head_dim);
        keys_ = sm90::k_major_descriptor(keys);
        values_ = sm90::mn_major_descriptor(keys + sm90::tile_bytes<__half>(kStep.keys, kStep.head_dim), kStep.keys);
        const auto* words = reinterpret_cast<const uint32_t*>(memory);
#pragma unroll
        for (int i = 0; i < kStep.keys / 4; ++i) probabilities_[i] = words[threadIdx.x + i] & 0x7FFF7FFF;
        if constexpr (kStep.query_in_registers) {
#pragma unroll
            for (int i = 0; i < kStep.head_dim / 4; ++i) rows_[i] = words[threadIdx.x + 128 + i];
        }
#pragma unroll
        for (int i = 0; i < 16; ++i) free_[i] = 0.01f * i;
        pin(free_);
    }

    __device__ __forceinline__ void step(float scale) {
        if constexpr (kStep.turns) barrier_sync(1 + warpgroup_);
        issue();
        if constexpr (kStep.turns) barrier_arrive(1 + (warpgroup_ + 1) % kStep.warpgroups);
        if constexpr (kStep.order == Order::kFree) {
            scalar_work<kStep.softmax, kStep.keys / 2, 16>(free_, scale, softmax_);
            finish_output();
            return;
        }
        wait<1>();
        pin(scores_);
        maxima(scores_, softmax_);
        if constexpr (kStep.order == Order::kEarly) {
            finish_output();
            exponentiate(scores_, scale, softmax_, probabilities_);
        } else {
            uint32_t next[kStep.keys / 4];
            exponentiate(scores_, scale, softmax_, next);
            pin(next);
            finish_output();
#pragma unroll
            for (int i = 0; i < kStep.keys / 4; ++i) probabilities_[i] = next[i];
        }
    }

    __device__ __forceinline__ void open() {
        if (kStep.turns && warpgroup_ == kStep.warpgroups - 1) barrier_arrive(1);
    }
    __device__ __forceinline__ void close(uint64_t* out) {
        if (kStep.turns && warpgroup_ == 0) barrier_sync(1);
        finish(softmax_, [&](const float(&sinks)[5]) { use(sinks, out); });
        use(free_, out);
        use(output_, out);
        use(scores_, out);
    }

private:
    template <int kAccumulate>
    __device__ __forceinline__ void issue_scores(int i) {
        namespace sm90 = flashcore::sm90;
        const uint64_t keys = keys_ + sm90::k_major_offset(i, kStep.keys);
        if constexpr (kStep.query_in_registers) {
            Scores::template registers<0, kAccumulate>(scores_, rows_ + 4 * i, keys);
        } else {
            Scores::template shared<kAccumulate>(scores_, query_ + sm90::k_major_offset(i, 64 * kStep.warpgroups), keys);
        }
    }
    __device__ __forceinline__ void issue() {
        namespace sm90 = flashcore::sm90;
        pin(scores_);
        fence();
        issue_scores<0>(0);
#pragma unroll
        for (int i = 1; i < kStep.head_dim / sm90::ElementTraits<__half>::kMmaK; ++i) issue_scores<1>(i);
        commit();
        pin(output_);
        pin(probabilities_);
        fence();
#pragma unroll
        for (int i = 0; i < kStep.keys / sm90::ElementTraits<__half>::kMmaK; ++i) {
            Output::template registers<1>(output_, probabilities_ + 4 * i, values_ + sm90::mn_major_offset<__half>(i));
        }
        commit();
    }
    __device__ __forceinline__ void finish_output() {
        wait<0>();
        pin(output_);
        pin(probabilities_);
        if constexpr (kStep.query_in_registers) pin(rows_);
    }

    int warpgroup_;
    uint64_t query_;
    uint64_t keys_;
    uint64_t values_;
    Rows softmax_;
    float free_[16];
    uint32_t rows_[kStep.head_dim / 4];
    uint32_t probabilities_[kStep.keys / 4];
    float scores_[kStep.keys / 2] = {};
    float output_[kStep.head_dim / 2] = {};
};

template <int kHeadDim, int kKeys, int kWarpgroups, Order kOrder, bool kTurns, Scalar kSoftmax, bool kQueryInRegisters>
struct Schedule {
    static constexpr Step step{kHeadDim, kKeys, kWarpgroups, kOrder, kTurns, kQueryInRegisters, kSoftmax};
};

struct Interval {
    uint64_t cycles;
    uint64_t nanoseconds;
};

// `rounds` bursts of `burst` iterations, with an idle pause of about `pause` ns between bursts.
template <class S>
__global__ void __launch_bounds__(S::step.warpgroups* kWarpgroup, 1)
    attend(Interval* out, int rounds, int burst, unsigned pause, float scale) {
    extern __shared__ __align__(1024) uint8_t memory[];
    fill_with_numbers(memory, attend_shared_bytes(S::step));
    Attend<S> worker(memory, __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWarpgroup, 0), scale);
    worker.open();
    const uint64_t clock = clock_now();
    const uint64_t time = nanoseconds_now();
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll 1
        for (int i = 0; i < burst; ++i) worker.step(scale);
        if (pause > 0) __nanosleep(pause);
    }
    const uint64_t end_clock = clock_now();
    const uint64_t end_time = nanoseconds_now();
    worker.close(&out->cycles);
    if (threadIdx.x == 0) out[blockIdx.x] = {end_clock - clock, end_time - time};
}

}  // namespace microbench
