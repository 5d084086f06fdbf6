// The clock under load: clock64 against globaltimer inside the kernel, next to the clock and power that NVML reports.
#include <dlfcn.h>

#include <chrono>

#include "attend.cuh"

namespace microbench {
namespace {

constexpr double kSettle = 0.9;   // seconds of load before readings count
constexpr double kMeasure = 0.5;  // seconds of readings
constexpr double kLaunch = 2e-3;  // seconds of one launch, about

// NVML without linking it. Without NVML its columns are missing.
class Nvml {
public:
    Nvml() {
        void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
        if (library == nullptr) return;
        const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
        const auto handle = reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
        clock_ = reinterpret_cast<int (*)(void*, int, unsigned*)>(dlsym(library, "nvmlDeviceGetClockInfo"));
        power_ = reinterpret_cast<int (*)(void*, unsigned*)>(dlsym(library, "nvmlDeviceGetPowerUsage"));
        present_ = init != nullptr && handle != nullptr && init() == 0 && handle(0, &device_) == 0;
    }
    bool clock(unsigned& mhz) const { return present_ && clock_ != nullptr && clock_(device_, 1, &mhz) == 0; }
    bool power(unsigned& milliwatts) const { return present_ && power_ != nullptr && power_(device_, &milliwatts) == 0; }

private:
    bool present_ = false;
    void* device_ = nullptr;
    int (*clock_)(void*, int, unsigned*) = nullptr;
    int (*power_)(void*, unsigned*) = nullptr;
};

double seconds() {
    using Clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

template <class S>
void load(const Nvml& nvml, const std::string& what, int percent) {
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
    std::vector<double> nvml_megahertz;
    std::vector<double> watts;
    const double begin = seconds();
    while (seconds() - begin < kSettle + kMeasure) {
        for (int i = 0; i < 4; ++i) {
            kernel<<<blocks, S::step.warpgroups * kWarpgroup, kShared>>>(out.get(), rounds, kBurst, pause, 0.1f);
        }
        check(cudaGetLastError(), "launch");
        unsigned mhz = 0;
        unsigned milliwatts = 0;
        const bool settled = seconds() - begin > kSettle;
        const bool clock_read = nvml.clock(mhz);  // while the launches run
        const bool power_read = nvml.power(milliwatts);
        const std::vector<Interval> intervals = out.copy();
        if (!settled) continue;
        if (clock_read) nvml_megahertz.push_back(mhz);
        if (power_read) watts.push_back(milliwatts / 1000.0);
        for (const Interval& interval : intervals) {
            megahertz.push_back(1e3 * static_cast<double>(interval.cycles) / static_cast<double>(interval.nanoseconds));
            share.push_back(100.0 * rounds * busy_clocks / static_cast<double>(interval.cycles));
        }
    }
    const std::string name = what + " aiming at " + std::to_string(percent) + " %: ";
    report("clocks", name + "of the tensor rate", median(share), "%");
    report("clocks", name + "clock in the kernel", median(megahertz), "MHz");
    if (!nvml_megahertz.empty()) report("clocks", name + "clock by NVML", median(nvml_megahertz), "MHz");
    if (!watts.empty()) report("clocks", name + "power by NVML", median(watts), "W");
    report("clocks", name + "products", median(share) / 100 * 4096 * blocks * median(megahertz) * 1e-6, "TFLOP/s");
}

}  // namespace

void run_clocks() {
    const Nvml nvml;
    for (const int percent : {30, 60, 80, 90, 100}) {
        load<Schedule<128, 128, 2, false, Scalar::kNone, false, false>>(nvml, "D128 products", percent);
    }
    load<Schedule<64, 128, 3, false, Scalar::kSoftmax, true, false>>(nvml, "D64 192x128 with softmax", 100);
    load<Schedule<128, 128, 2, true, Scalar::kSoftmax, true, false>>(nvml, "D128 128x128 with softmax", 100);
    load<Schedule<256, 64, 2, false, Scalar::kSoftmax, true, false>>(nvml, "D256 128x64 with softmax", 100);
}

}  // namespace microbench
