// The type of an E4M3 operand. Only the tensor cores compute with it.
#pragma once

#include <cstdint>

namespace flashcore {

struct E4m3 {
    uint8_t bits;
};

}  // namespace flashcore
