// A KV iteration of attention without loads, masks and edges: its fraction of the tensor core rate, and the clock under its load
// (clock64 against globaltimer in the kernel).
#include <chrono>

#include "flashcore/ptx/warpgroup.cuh"
#include "flashcore/ptx/wgmma.cuh"
#include "flashcore/sm90/smem_descriptor.cuh"
#include "scalar.cuh"

namespace microbench {
namespace {

namespace sm90 = flashcore::sm90;

struct Step {
    int head_dim;
    int keys;
    int warpgroups;
    bool query_in_registers;  // otherwise in shared memory
    bool softmax;             // between the scores and PV of the next iteration
    bool turns;               // named barriers order the mmas of the warpgroups
};

__host__ __device__ constexpr int attend_shared_bytes(const Step& step) {
    return 2 * step.head_dim * (64 * step.warpgroups + 2 * step.keys);
}
// Clocks that the tensor cores need for one iteration of one warpgroup.
__host__ __device__ constexpr double attend_tensor_clocks(const Step& step) { return 4.0 * 64 * step.keys * step.head_dim / 4096; }

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
    }

    __device__ __forceinline__ void step(float scale) {
        if constexpr (kStep.turns) ptx::named_barrier_sync(1 + warpgroup_, 2 * kWarpgroup);
        issue();
        if constexpr (kStep.turns) ptx::named_barrier_arrive(1 + (warpgroup_ + 1) % kStep.warpgroups, 2 * kWarpgroup);
        if constexpr (kStep.softmax) {
            ptx::wgmma_wait<1>();
            ptx::warpgroup_fence_operand(scores_);
            maxima(scores_, softmax_);
        }
        finish_output();
        if constexpr (kStep.softmax) exponentiate(scores_, scale, softmax_, probabilities_);
    }

    __device__ __forceinline__ void open() {
        if (kStep.turns && warpgroup_ == kStep.warpgroups - 1) ptx::named_barrier_arrive(1, 2 * kWarpgroup);
    }
    __device__ __forceinline__ void close(uint64_t* out) {
        if (kStep.turns && warpgroup_ == 0) ptx::named_barrier_sync(1, 2 * kWarpgroup);
        use(softmax_, out);
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
    uint32_t rows_[kStep.head_dim / 4];
    uint32_t probabilities_[kStep.keys / 4];
    float scores_[kStep.keys / 2] = {};
    float output_[kStep.head_dim / 2] = {};
};

template <int kHeadDim, int kKeys, int kWarpgroups, bool kQueryInRegisters, bool kSoftmax, bool kTurns>
struct Schedule {
    static constexpr Step step{kHeadDim, kKeys, kWarpgroups, kQueryInRegisters, kSoftmax, kTurns};
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

constexpr int kRounds = 1000;
constexpr int kBurst = 4;

template <int kHeadDim, int kKeys, int kWarpgroups, bool kQueryInRegisters, bool kSoftmax, bool kTurns>
void measure(const std::string& what) {
    using S = Schedule<kHeadDim, kKeys, kWarpgroups, kQueryInRegisters, kSoftmax, kTurns>;
    constexpr int kShared = attend_shared_bytes(S::step);
    allow_shared(attend<S>, kShared);
    const double step = median_of<Interval>(
        multiprocessors(),
        [](Interval* out) {
            attend<S><<<multiprocessors(), kWarpgroups * kWarpgroup, kShared>>>(out, kRounds, kBurst, 0, 0.1f);
        },
        [](const Interval& interval) { return static_cast<double>(interval.cycles) / (kRounds * kBurst); });
    report("attend", what + ": clocks of a step", step, "clk");
    report("attend", what + ": of the tensor rate", 100.0 * kWarpgroups * attend_tensor_clocks(S::step) / step, "%");
}

template <int kHeadDim, int kKeys, int kWarpgroups, bool kQ>
void orders(const std::string& what) {
    measure<kHeadDim, kKeys, kWarpgroups, kQ, false, false>(what + " products alone");
    measure<kHeadDim, kKeys, kWarpgroups, kQ, true, false>(what + " softmax, output first");
    measure<kHeadDim, kKeys, kWarpgroups, kQ, true, true>(what + " softmax, output first, turns");
}

constexpr double kSettle = 0.9;   // seconds of load before readings count
constexpr double kMeasure = 0.5;  // seconds of readings
constexpr double kLaunch = 2e-3;  // seconds of one launch, about

double seconds() {
    using Clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

template <class S>
void load(const std::string& what, int percent) {
    constexpr int kShared = attend_shared_bytes(S::step);
    constexpr int kBurst = 16;
    auto* kernel = attend<S>;
    allow_shared(kernel, kShared);
    const int blocks = multiprocessors();
    DeviceArray<Interval> out(blocks);
    const double busy_clocks = kBurst * S::step.warpgroups * attend_tensor_clocks(S::step);
    const auto pause = static_cast<unsigned>(busy_clocks / 1.7 * (100 - percent) / percent);  // ns, at about 1.7 GHz
    const int rounds = static_cast<int>(kLaunch * 1e9 / (busy_clocks / 1.7 * 100 / percent));
    std::vector<double> megahertz;
    std::vector<double> share;
    const double begin = seconds();
    while (seconds() - begin < kSettle + kMeasure) {
        for (int i = 0; i < 4; ++i) {
            kernel<<<blocks, S::step.warpgroups * kWarpgroup, kShared>>>(out.get(), rounds, kBurst, pause, 0.1f);
        }
        check(cudaGetLastError(), "launch");
        const bool settled = seconds() - begin > kSettle;
        const std::vector<Interval> intervals = out.copy();
        if (!settled) continue;
        for (const Interval& interval : intervals) {
            megahertz.push_back(1e3 * static_cast<double>(interval.cycles) / static_cast<double>(interval.nanoseconds));
            share.push_back(100.0 * rounds * busy_clocks / static_cast<double>(interval.cycles));
        }
    }
    const std::string name = what + " aiming at " + std::to_string(percent) + " %: ";
    report("clocks", name + "of the tensor rate", median(share), "%");
    report("clocks", name + "clock in the kernel", median(megahertz), "MHz");
    report("clocks", name + "products", median(share) / 100 * 4096 * blocks * median(megahertz) * 1e-6, "TFLOP/s");
}

}  // namespace

void run_attend() {
    orders<64, 128, 3, false>("D64 192x128");
    orders<128, 128, 2, true>("D128 128x128 query in registers");
    orders<256, 64, 2, false>("D256 128x64");
}

void run_clocks() {
    for (const int percent : {30, 60, 80, 90, 100}) {
        load<Schedule<128, 128, 2, false, false, false>>("D128 products", percent);
    }
    load<Schedule<64, 128, 3, false, true, false>>("D64 192x128 with softmax", 100);
    load<Schedule<128, 128, 2, true, true, false>>("D128 128x128 with softmax", 100);
    load<Schedule<256, 64, 2, false, true, false>>("D256 128x64 with softmax", 100);
}

}  // namespace microbench
