// A fake runtime that counts its calls. Every device number is a Hopper GPU except 1.
#pragma once

#include <cstddef>
#include <cstring>

enum cudaError_t { cudaSuccess, cudaErrorInvalidDevice };
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor, cudaDevAttrMultiProcessorCount };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };
enum cudaMemcpyKind { cudaMemcpyDeviceToHost };
constexpr int cudaEnableDefault = 0;
using cudaStream_t = void*;

namespace runtime {
inline int current = 0;
inline bool has_context = false;  // of the calling thread: a new one has none until cudaSetDevice
inline int device_queries = 0;    // device attributes that were read
inline int attributes_set = 0;  // function attributes that were set
inline int launched = 0;
inline cudaError_t set_attribute_result = cudaSuccess;
inline void* driver_function = nullptr;  // the only function that it has
}  // namespace runtime

inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    ++runtime::device_queries;
    if (device < 0) return cudaErrorInvalidDevice;
    *value = attribute == cudaDevAttrMultiProcessorCount ? 100 + device : attribute == cudaDevAttrComputeCapabilityMajor ? 9 : device == 1;
    return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) { return *device = runtime::current, cudaSuccess; }
inline cudaError_t cudaSetDevice(int device) { return runtime::current = device, runtime::has_context = true, cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return "refused"; }
inline const char* cudaGetErrorName(cudaError_t) { return "cudaErrorInvalidDevice"; }
inline cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** address, unsigned, int,
                                                    cudaDriverEntryPointQueryResult* found) {
    *address = runtime::driver_function;
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
    return std::memcpy(to, from, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpy2DAsync(void* to, std::size_t step, const void* from, std::size_t pitch, std::size_t width,
                                     std::size_t rows, cudaMemcpyKind, cudaStream_t) {
    for (std::size_t i = 0; i < rows; ++i)
        std::memcpy(static_cast<char*>(to) + i * step, static_cast<const char*>(from) + i * pitch, width);
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
