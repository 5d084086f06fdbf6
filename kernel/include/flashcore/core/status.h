// Status codes of the C ABI and the last error message of the calling thread. Host code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdarg>
#include <cstdio>

namespace flashcore {

enum class Status : int {
    kOk = 0,
    kInvalidArgument = 1,    // the caller can fix it, and the message names the argument
    kUnsupportedDevice = 2,  // not a Hopper GPU
    kCudaFailure = 3,        // the CUDA runtime or the driver failed
};

constexpr int kErrorMessageCapacity = 256;

inline char* last_error_message() {
    static thread_local char message[kErrorMessageCapacity] = "";
    return message;
}

__attribute__((format(printf, 2, 3))) inline Status fail(Status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(last_error_message(), kErrorMessageCapacity, format, arguments);
    va_end(arguments);
    return status;
}

inline Status check(cudaError_t error, const char* operation) {
    if (error == cudaSuccess) return Status::kOk;
    cudaGetLastError();  // clear it here, or the caller's next check reports it again
    return fail(Status::kCudaFailure, "%s: %s (%s)", operation, cudaGetErrorString(error), cudaGetErrorName(error));
}

}  // namespace flashcore

// Evaluates a Status and returns it from the calling function unless it is kOk.
#define FLASHCORE_RETURN_IF_FAILED(expression)                                     \
    do {                                                                           \
        const ::flashcore::Status flashcore_status = (expression);                 \
        if (flashcore_status != ::flashcore::Status::kOk) return flashcore_status; \
    } while (false)
