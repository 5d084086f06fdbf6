// The host side of an instantiation: the one place where a kernel is launched.
#pragma once

#include <cuda_runtime.h>

namespace flashcore {

constexpr int kSharedBytesWithoutOptIn = 48 * 1024;

template <auto kKernel, int kThreads, int kSharedBytes, class Params>
cudaError_t launch(const Params& params, int ctas, cudaStream_t stream) {
    if constexpr (kSharedBytes > kSharedBytesWithoutOptIn) {
        const cudaError_t error = cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
        if (error != cudaSuccess) return error;
    }
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(ctas));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = kSharedBytes;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kKernel, params);  // its own error, not one that somebody left behind
}

}  // namespace flashcore
