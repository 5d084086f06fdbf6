// The C++ type of an element type of the C ABI. Results for E4M3 queries are bf16.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "flashcore/core/dtype.h"

namespace flashcore {

template <DType kDType>
using ElementOf = std::conditional_t<kDType == DType::kFp16, __half, __nv_bfloat16>;

}  // namespace flashcore
