// One compiled entry function for the host: its tuning and the function that launches it. Host code.
#pragma once

#include <cuda_runtime_api.h>

namespace flashcore {

template <class Config, class Params>
struct Variant {
    Config config;
    cudaError_t (*launch)(const Params& params, int ctas, cudaStream_t stream);
};

}  // namespace flashcore
