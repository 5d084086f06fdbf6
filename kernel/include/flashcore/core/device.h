// The device that a launch goes to. Host code.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>

#include "flashcore/core/status.h"

namespace flashcore {

constexpr int kRequiredMajor = 9;  // sm_90a code runs on compute capability 9.0 only
constexpr int kRequiredMinor = 0;

struct Device {
    int multiprocessors = 0;
};

// Makes a device current for one scope and restores the caller's device.
class DeviceScope {
public:
    DeviceScope() = default;
    DeviceScope(const DeviceScope&) = delete;
    DeviceScope& operator=(const DeviceScope&) = delete;
    ~DeviceScope() {
        if (previous_ >= 0) cudaSetDevice(previous_);
    }

    Status enter(int device) {
        int current = -1;
        FLASHCORE_RETURN_IF_FAILED(check(cudaGetDevice(&current), "cudaGetDevice"));
        // Also if it is current: a thread has no context before its first call, and encoding a tensor map needs one.
        FLASHCORE_RETURN_IF_FAILED(check(cudaSetDevice(device), "device"));
        if (current != device) previous_ = current;
        return Status::kOk;
    }

private:
    int previous_ = -1;
};

constexpr int kCachedDevices = 64;  // devices whose properties are cached

inline Status describe(int ordinal, Device& device) {
    static std::atomic<int> cached[kCachedDevices];  // multiprocessors, 0 if not cached yet
    const bool cacheable = ordinal >= 0 && ordinal < kCachedDevices;
    if (cacheable) device.multiprocessors = cached[ordinal];
    if (device.multiprocessors > 0) return Status::kOk;
    int major = 0;
    int minor = 0;
    FLASHCORE_RETURN_IF_FAILED(check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal), "device"));
    FLASHCORE_RETURN_IF_FAILED(check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal), "device"));
    if (major != kRequiredMajor || minor != kRequiredMinor) {
        return fail(Status::kUnsupportedDevice,
                    "device: %d has compute capability %d.%d, but these kernels need %d.%d. Use a Hopper GPU", ordinal, major,
                    minor, kRequiredMajor, kRequiredMinor);
    }
    FLASHCORE_RETURN_IF_FAILED(
        check(cudaDeviceGetAttribute(&device.multiprocessors, cudaDevAttrMultiProcessorCount, ordinal), "device"));
    if (cacheable) cached[ordinal] = device.multiprocessors;
    return Status::kOk;
}

}  // namespace flashcore
