// The part of the runtime that core/launch.cuh uses.
#pragma once

#include "cuda_runtime_api.h"

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };

struct dim3 {
    dim3(unsigned x = 1) : x(x) {}
    unsigned x;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    std::size_t dynamicSmemBytes;
    cudaStream_t stream;
};

template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int) {
    ++runtime::attributes_set;
    return runtime::set_attribute_result;
}
template <class Kernel, class Params>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t*, Kernel, const Params&) {
    ++runtime::launched;
    return cudaSuccess;
}
