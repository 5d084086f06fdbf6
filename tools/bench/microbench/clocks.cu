// The clock under load: clock64 against globaltimer inside the kernel.
#include <chrono>

#include "attend.cuh"

namespace microbench {
namespace {

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

void run_clocks() {
    for (const int percent : {30, 60, 80, 90, 100}) {
        load<Schedule<128, 128, 2, false, Scalar::kNone, false, false>>("D128 products", percent);
    }
    load<Schedule<64, 128, 3, false, Scalar::kSoftmax, true, false>>("D64 192x128 with softmax", 100);
    load<Schedule<128, 128, 2, true, Scalar::kSoftmax, true, false>>("D128 128x128 with softmax", 100);
    load<Schedule<256, 64, 2, false, Scalar::kSoftmax, true, false>>("D256 128x64 with softmax", 100);
}

}  // namespace microbench
