// Measures which fraction of the tensor core rate a KV iteration of attention reaches, by head dimension, order and warpgroups.
#include "attend.cuh"
#include "suite.h"

namespace microbench {
namespace {

constexpr int kRounds = 1000;
constexpr int kBurst = 4;

template <int kHeadDim, int kKeys, int kWarpgroups, Order kOrder, bool kTurns, Scalar kSoftmax, bool kQueryInRegisters = false>
void measure(const std::string& what) {
    using S = Schedule<kHeadDim, kKeys, kWarpgroups, kOrder, kTurns, kSoftmax, kQueryInRegisters>;
    constexpr int kShared = attend_shared_bytes(S::step);
    auto* kernel = attend<S>;
    allow_shared(kernel, kShared);
    const int blocks = multiprocessors();
    DeviceArray<Interval> out(blocks);
    std::vector<double> clocks;
    for (int repetition = 0; repetition < 3; ++repetition) {
        kernel<<<blocks, kWarpgroups * kWarpgroup, kShared>>>(out.get(), kRounds, kBurst, 0, 0.1f);
        check(cudaGetLastError(), "launch");
        for (const Interval& interval : out.copy()) clocks.push_back(static_cast<double>(interval.cycles) / (kRounds * kBurst));
    }
    const double step = median(clocks);
    report("attend", what + ": clocks of a step", step, "clk");
    report("attend", what + ": of the tensor rate", 100.0 * kWarpgroups * attend_tensor_clocks(S::step) / step, "%");
}

template <int kHeadDim, int kKeys, int kWarpgroups, bool kQueryInRegisters>
void orders(const std::string& what) {
    constexpr bool kQ = kQueryInRegisters;
    measure<kHeadDim, kKeys, kWarpgroups, Order::kFree, false, Scalar::kNone, kQ>(what + " products alone");
    measure<kHeadDim, kKeys, kWarpgroups, Order::kFree, false, Scalar::kExp2, kQ>(what + " exp2 alone, independent");
    measure<kHeadDim, kKeys, kWarpgroups, Order::kFree, false, Scalar::kSoftmax, kQ>(what + " softmax, independent");
    measure<kHeadDim, kKeys, kWarpgroups, Order::kEarly, false, Scalar::kSoftmax, kQ>(what + " softmax, output first");
    if constexpr (kWarpgroups > 1) {
        measure<kHeadDim, kKeys, kWarpgroups, Order::kEarly, true, Scalar::kSoftmax, kQ>(what + " softmax, output first, turns");
    }
    measure<kHeadDim, kKeys, kWarpgroups, Order::kLate, false, Scalar::kSoftmax, kQ>(what + " softmax, exponentials first");
    if constexpr (kWarpgroups > 1) {
        measure<kHeadDim, kKeys, kWarpgroups, Order::kLate, true, Scalar::kSoftmax, kQ>(what + " softmax, exponentials first, turns");
    }
}

}  // namespace

void run_attend() {
    orders<64, 128, 1, false>("D64 64x128");
    orders<64, 128, 2, false>("D64 128x128");
    orders<64, 128, 2, true>("D64 128x128 query in registers");
    orders<64, 96, 3, false>("D64 192x96");
    orders<64, 128, 3, false>("D64 192x128");
    orders<64, 176, 2, false>("D64 128x176");
    orders<128, 128, 2, false>("D128 128x128");
    orders<128, 128, 2, true>("D128 128x128 query in registers");
    orders<128, 176, 2, false>("D128 128x176");
    orders<256, 80, 2, false>("D256 128x80");
    orders<256, 64, 2, false>("D256 128x64");
}

}  // namespace microbench
