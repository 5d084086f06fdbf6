// The host side of an instantiation. Every kernel is launched here.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

namespace flashcore {

constexpr int kSharedBytesWithoutOptIn = 48 * 1024;

// Allows a kernel its shared memory on the current device. The permission lasts, so one call per device is enough.
template <auto kKernel, int kSharedBytes>
cudaError_t opt_in() {
    static std::atomic<uint64_t> allowed{0};  // one bit per device
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess) return error;
    const uint64_t bit = device < 64 ? uint64_t{1} << device : 0;
    if ((allowed & bit) != 0) return cudaSuccess;
    error = cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error == cudaSuccess) allowed |= bit;
    return error;
}

template <auto kKernel, int kThreads, int kSharedBytes, class Params>
cudaError_t launch(const Params& params, int ctas, cudaStream_t stream) {
    if constexpr (kSharedBytes > kSharedBytesWithoutOptIn) {
        const cudaError_t error = opt_in<kKernel, kSharedBytes>();
        if (error != cudaSuccess) return error;
    }
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(ctas));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = kSharedBytes;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kKernel, params);  // returns this launch's error, not an older one
}

}  // namespace flashcore
