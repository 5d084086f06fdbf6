// Element types of the C ABI.
#pragma once

namespace flashcore {

enum class DType : int { kFp16 = 0, kBf16 = 1 };

}  // namespace flashcore
