// How long L2 keeps what a copy reads.
#pragma once

#include <cstdint>

namespace flashcore {

constexpr uint64_t kKeep = 0x1000000000000000;        // as long as anything else
constexpr uint64_t kEvictFirst = 0x12F0000000000000;  // it is not read again

}  // namespace flashcore
