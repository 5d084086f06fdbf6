// A KV iteration of attention without loads, masks and edges. Only the schedule limits the pipes.
#pragma once

#include "flashcore/ptx/warpgroup.cuh"
#include "flashcore/ptx/wgmma.cuh"
#include "flashcore/sm90/smem_descriptor.cuh"
#include "scalar.cuh"

namespace microbench {

namespace sm90 = flashcore::sm90;

struct Step {
    int head_dim;
    int keys;
    int warpgroups;
    bool query_in_registers;  // otherwise in shared memory
    Scalar softmax;
    bool dependent;  // on the mmas of its iteration: it waits for its scores, and for the PV of the previous iteration
    bool turns;      // named barriers order the mmas of the warpgroups
};

__host__ __device__ constexpr int attend_shared_bytes(const Step& step) {
    return 2 * step.head_dim * (64 * step.warpgroups + 2 * step.keys);
}
// Clocks that the tensor cores need for one iteration of one warpgroup.
__host__ __device__ constexpr double attend_tensor_clocks(const Step& step) { return 4.0 * 64 * step.keys * step.head_dim / 4096; }

__device__ __forceinline__ void barrier_sync(int barrier) { ptx::named_barrier_sync(barrier, 2 * kWarpgroup); }
__device__ __forceinline__ void barrier_arrive(int barrier) { ptx::named_barrier_arrive(barrier, 2 * kWarpgroup); }

template <class S>
class Attend {
    static constexpr Step kStep = S::step;
    using Scores = ptx::Wgmma<__half, kStep.keys>;
    using Output = ptx::Wgmma<__half, kStep.head_dim>;

public:
    __device__ __forceinline__ Attend(uint8_t* memory, int warpgroup, float scale)
        : warpgroup_(warpgroup), softmax_(scale) {
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
        ptx::warpgroup_fence_operand(free_);
    }

    __device__ __forceinline__ void step(float scale) {
        if constexpr (kStep.turns) barrier_sync(1 + warpgroup_);
        issue();
        if constexpr (kStep.turns) barrier_arrive(1 + (warpgroup_ + 1) % kStep.warpgroups);
        if constexpr (kStep.dependent) {
            ptx::wgmma_wait<1>();
            ptx::warpgroup_fence_operand(scores_);
            maxima(scores_, softmax_);
            finish_output();
            exponentiate(scores_, scale, softmax_, probabilities_);
        } else {
            scalar_work<kStep.softmax, kStep.keys / 2, 16>(free_, scale, softmax_);
            finish_output();
        }
    }

    __device__ __forceinline__ void open() {
        if (kStep.turns && warpgroup_ == kStep.warpgroups - 1) barrier_arrive(1);
    }
    __device__ __forceinline__ void close(uint64_t* out) {
        if (kStep.turns && warpgroup_ == 0) barrier_sync(1);
        use(softmax_, out);
        use(free_, out);
        use(output_, out);
        use(scores_, out);
    }

private:
    __device__ __forceinline__ void issue_scores(int i) {
        const uint64_t keys = keys_ + sm90::k_major_offset(i, kStep.keys);
        if constexpr (kStep.query_in_registers) {
            Scores::template registers<ptx::Major::kK>(scores_, rows_ + 4 * i, keys, i > 0);
        } else {
            Scores::shared(scores_, query_ + sm90::k_major_offset(i, 64 * kStep.warpgroups), keys, i > 0);
        }
    }
    __device__ __forceinline__ void issue() {
        ptx::warpgroup_fence_operand(scores_);
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < kStep.head_dim / sm90::ElementTraits<__half>::kMmaK; ++i) issue_scores(i);
        ptx::wgmma_commit();
        ptx::warpgroup_fence_operand(output_);
        ptx::warpgroup_fence_operand(probabilities_);
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < kStep.keys / sm90::ElementTraits<__half>::kMmaK; ++i) {
            Output::template registers<ptx::Major::kMn>(output_, probabilities_ + 4 * i, values_ + sm90::mn_major_offset<__half>(i), 1);
        }
        ptx::wgmma_commit();
    }
    __device__ __forceinline__ void finish_output() {
        ptx::wgmma_wait<0>();
        ptx::warpgroup_fence_operand(output_);
        ptx::warpgroup_fence_operand(probabilities_);
        if constexpr (kStep.query_in_registers) ptx::warpgroup_fence_operand(rows_);
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

template <int kHeadDim, int kKeys, int kWarpgroups, bool kQueryInRegisters, Scalar kSoftmax, bool kDependent, bool kTurns>
struct Schedule {
    static constexpr Step step{kHeadDim, kKeys, kWarpgroups, kQueryInRegisters, kSoftmax, kDependent, kTurns};
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
