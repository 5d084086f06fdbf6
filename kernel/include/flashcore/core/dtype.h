// Element types of the C ABI. E4M3 is OCP's 8-bit type with 4 bits of exponent and 3 of mantissa, without infinity.
#pragma once

#include "flashcore/core/host_device.h"

namespace flashcore {

enum class DType : int { kFp16 = 0, kBf16 = 1, kE4m3 = 2 };

FLASHCORE_HOST_DEVICE constexpr int bytes_of(DType dtype) { return dtype == DType::kE4m3 ? 1 : 2; }

}  // namespace flashcore
