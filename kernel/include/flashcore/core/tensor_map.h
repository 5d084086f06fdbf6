// Tensor maps for TMA, encoded through the driver without linking it. Host code.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

#include "flashcore/core/arguments.h"
#include "flashcore/core/dtype.h"
#include "flashcore/core/status.h"

namespace flashcore {

constexpr int kTensorRank = 5;                            // most dimensions
constexpr int kSwizzleAtomColumns = 64;                   // elements of a box row: 128 bytes, the width of the swizzle
constexpr int64_t kTensorAlignment = 16;                  // bytes, of the address and of every stride
constexpr int64_t kTensorStrideLimit = int64_t{1} << 40;  // bytes

// A tensor. The innermost dimension comes first and is contiguous. Strides are in bytes and belong to the
// other dimensions.
struct TensorShape {
    const char* name;
    void* data;
    int64_t extent[kTensorRank];
    int64_t stride[kTensorRank - 1];
    uint32_t box[kTensorRank];
    int rank = 4;
    const char* dimension[kTensorRank - 1] = {"sequence", "head", "batch"};  // names of the other dimensions, for messages
    CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;   // what a miss loads into L2
    CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;                 // a box row is as wide
};

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

inline Status find_encoder(EncodeTiled& encoder) {
    static std::atomic<EncodeTiled> cached{nullptr};  // valid while the process lives
    encoder = cached;
    if (encoder != nullptr) return Status::kOk;
    constexpr unsigned kFirstVersion = 12000;  // the CUDA version that introduced cuTensorMapEncodeTiled
    void* address = nullptr;
    cudaDriverEntryPointQueryResult query_result = cudaDriverEntryPointSymbolNotFound;
    FLASHCORE_RETURN_IF_FAILED(check(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, kFirstVersion, cudaEnableDefault, &query_result),
        "cuTensorMapEncodeTiled"));
    if (query_result != cudaDriverEntryPointSuccess || address == nullptr) {
        return fail(Status::kUnsupportedDevice, "driver: has no cuTensorMapEncodeTiled. Install a driver for CUDA 12.0 or newer");
    }
    encoder = reinterpret_cast<EncodeTiled>(address);
    cached = encoder;
    return Status::kOk;
}

inline Status check_tensor(const TensorShape& tensor) {
    FLASHCORE_RETURN_IF_FAILED(check_pointer(tensor.name, tensor.data, kTensorAlignment));
    for (int i = 0; i < tensor.rank - 1; ++i) {
        if (tensor.extent[i + 1] == 1) continue;  // the stride of a dimension of extent 1 is never used
        const int64_t stride = tensor.stride[i];
        if (stride < 0 || stride % kTensorAlignment != 0 || stride >= kTensorStrideLimit) {
            return fail(Status::kInvalidArgument,
                        "%s: the %s stride must be a multiple of 16 bytes from 0 to below 2^40, but is %lld bytes", tensor.name,
                        tensor.dimension[i], static_cast<long long>(stride));
        }
    }
    return Status::kOk;
}

inline CUtensorMapDataType map_type(DType dtype) {
    switch (dtype) {
        case DType::kFp16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
        case DType::kBf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
        case DType::kE4m3: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    }
    return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

// Encodes a map. TMA fills what a box reads outside the tensor with zeros.
inline Status encode(const TensorShape& tensor, DType dtype, CUtensorMap& map) {
    EncodeTiled encoder = nullptr;
    FLASHCORE_RETURN_IF_FAILED(find_encoder(encoder));
    FLASHCORE_RETURN_IF_FAILED(check_tensor(tensor));
    cuuint64_t extent[kTensorRank];
    cuuint64_t stride[kTensorRank - 1];
    constexpr cuuint32_t kElementStride[kTensorRank] = {1, 1, 1, 1, 1};
    for (int i = 0; i < tensor.rank; ++i) extent[i] = static_cast<cuuint64_t>(tensor.extent[i]);
    for (int i = 0; i < tensor.rank - 1; ++i) {
        stride[i] = static_cast<cuuint64_t>(tensor.extent[i + 1] == 1 ? kTensorAlignment : tensor.stride[i]);
    }
    const auto encode_once = [&] {
        return encoder(&map, map_type(dtype), static_cast<cuuint32_t>(tensor.rank), tensor.data, extent, stride, tensor.box,
                       kElementStride, CU_TENSOR_MAP_INTERLEAVE_NONE, tensor.swizzle, tensor.promotion,
                       CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    CUresult result = encode_once();
    if (result == CUDA_ERROR_INVALID_CONTEXT) {  // a new thread has a device, but no current context before cudaSetDevice
        int device = 0;
        FLASHCORE_RETURN_IF_FAILED(check(cudaGetDevice(&device), "cudaGetDevice"));
        FLASHCORE_RETURN_IF_FAILED(check(cudaSetDevice(device), "device"));
        result = encode_once();
    }
    if (result == CUDA_SUCCESS) return Status::kOk;
    return fail(Status::kCudaFailure, "%s: the driver refused the tensor map (CUresult %d)", tensor.name,
                static_cast<int>(result));
}

}  // namespace flashcore
