// Measures which fraction of the tensor core rate a KV iteration of attention reaches with the tiles that the kernel uses.
#include "attend.cuh"

namespace microbench {
namespace {

constexpr int kRounds = 1000;
constexpr int kBurst = 4;

template <int kHeadDim, int kKeys, int kWarpgroups, bool kQueryInRegisters, Scalar kSoftmax, bool kDependent, bool kTurns>
void measure(const std::string& what) {
    using S = Schedule<kHeadDim, kKeys, kWarpgroups, kQueryInRegisters, kSoftmax, kDependent, kTurns>;
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
    measure<kHeadDim, kKeys, kWarpgroups, kQ, Scalar::kNone, false, false>(what + " products alone");
    measure<kHeadDim, kKeys, kWarpgroups, kQ, Scalar::kSoftmax, false, false>(what + " softmax, independent");
    measure<kHeadDim, kKeys, kWarpgroups, kQ, Scalar::kSoftmax, true, false>(what + " softmax, output first");
    measure<kHeadDim, kKeys, kWarpgroups, kQ, Scalar::kSoftmax, true, true>(what + " softmax, output first, turns");
}

}  // namespace

void run_attend() {
    orders<64, 128, 3, false>("D64 192x128");
    orders<128, 128, 2, true>("D128 128x128 query in registers");
    orders<256, 64, 2, false>("D256 128x64");
}

}  // namespace microbench
