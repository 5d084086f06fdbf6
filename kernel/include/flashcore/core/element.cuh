// The C++ types of an element type of the C ABI. Results for E4M3 queries are bf16.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "flashcore/core/dtype.h"
#include "flashcore/ptx/e4m3.h"

namespace flashcore {

template <DType kDType>
using ElementOf = std::conditional_t<kDType == DType::kFp16, __half, __nv_bfloat16>;

// What the tensor cores read.
template <DType kDType>
using OperandOf = std::conditional_t<kDType == DType::kE4m3, E4m3, ElementOf<kDType>>;

}  // namespace flashcore
