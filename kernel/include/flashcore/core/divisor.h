// Division by a number that only the launch knows, as a multiplication. Host and device.
#pragma once

#include <cstdint>

#include "flashcore/core/host_device.h"

namespace flashcore {

// For dividends from 0 to 2^31 - 1 and divisors from 1 to 2^30. With 2^shift >= value the multiplier has at most 32 bits, and the
// error of the quotient stays below 1 / value (Granlund and Montgomery, 1994).
struct Divisor {
    int value;
    unsigned multiplier;
    int shift;

    FLASHCORE_HOST_DEVICE constexpr int quotient(int dividend) const {
        return static_cast<int>((static_cast<uint64_t>(2u * static_cast<unsigned>(dividend)) * multiplier >> 32) >> shift);
    }
};

inline Divisor make_divisor(int value) {
    int shift = 0;
    while (1 << shift < value) ++shift;
    const uint64_t rounded_up = (uint64_t{1} << (31 + shift)) + static_cast<uint64_t>(value) - 1;
    return {value, static_cast<unsigned>(rounded_up / static_cast<uint64_t>(value)), shift};
}

}  // namespace flashcore
