// How a kernel is launched, and the language of device code.
#pragma once

#include <cstddef>

#include "cuda_runtime_api.h"
#include "emulator/device.h"

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    std::size_t dynamicSmemBytes;
    cudaStream_t stream;
};

namespace emulator {

struct Launch {
    const void* kernel;
    unsigned ctas, threads;
    std::size_t shared_bytes;
    void (*enter)(const Launch&);  // what each thread runs
    const void* params;
};

cudaError_t run(const Launch& launch);
cudaError_t allow_shared_bytes(const void* kernel, int bytes);

template <class Kernel, class Params>
__attribute__((no_sanitize("thread"))) void enter(const Launch& launch) {
    reinterpret_cast<Kernel>(const_cast<void*>(launch.kernel))(*static_cast<const Params*>(launch.params));
}

}  // namespace emulator

template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel kernel, cudaFuncAttribute, int bytes) {
    return emulator::allow_shared_bytes(reinterpret_cast<const void*>(kernel), bytes);
}

template <class Kernel, class Params>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, Kernel kernel, const Params& params) {
    return emulator::run({reinterpret_cast<const void*>(kernel), config->gridDim.x, config->blockDim.x, config->dynamicSmemBytes,
                          emulator::enter<Kernel, Params>, &params});
}
