// A runtime of three devices that counts what it is asked. The second device is no Hopper; device 70 is one.
#pragma once

#include <cstddef>

enum cudaError_t { cudaSuccess, cudaErrorInvalidDevice };
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor, cudaDevAttrMultiProcessorCount };
using cudaStream_t = void*;

namespace runtime {
inline int current = 0;
inline int asked = 0;    // attributes of devices
inline int allowed = 0;  // attributes of functions that were set
inline int launched = 0;
inline cudaError_t answer = cudaSuccess;
}  // namespace runtime

inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    ++runtime::asked;
    if (device < 0) return cudaErrorInvalidDevice;
    *value = attribute == cudaDevAttrMultiProcessorCount ? 100 + device : attribute == cudaDevAttrComputeCapabilityMajor ? 9 : device == 1;
    return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) { return *device = runtime::current, cudaSuccess; }
inline cudaError_t cudaSetDevice(int device) { return runtime::current = device, cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return "refused"; }
inline const char* cudaGetErrorName(cudaError_t) { return "cudaErrorInvalidDevice"; }
