// Conversions between floating-point types.
#include <array>
#include <cmath>

#include "numbers.h"

namespace emulator {

namespace {

float half_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const int mantissa = bits & 1023;
    const uint32_t sign = static_cast<uint32_t>(bits >> 15) << 31;
    if (exponent == 31) return __builtin_bit_cast(float, sign | 0x7F800000u | static_cast<uint32_t>(mantissa) << 13);
    if (exponent != 0) return __builtin_bit_cast(float, sign | static_cast<uint32_t>(exponent + 112) << 23 | static_cast<uint32_t>(mantissa) << 13);
    const double value = mantissa * 0x1p-24;
    return static_cast<float>(sign != 0 ? -value : value);
}

float e4m3_value(uint8_t bits) {
    const int exponent = bits >> 3 & 15;
    const int mantissa = bits & 7;
    if ((bits & 0x7F) == 0x7F) return __builtin_bit_cast(float, 0x7FC00000u);
    const double value = exponent == 0 ? mantissa * 0x1p-9 : (8 + mantissa) * std::ldexp(1.0, exponent - 10);
    return static_cast<float>((bits & 0x80) != 0 ? -value : value);
}

// Drops the lowest bits of an integer, to nearest, ties to even.
uint32_t round_off(uint64_t value, int bits) {
    const uint64_t half = uint64_t{1} << (bits - 1);
    const uint64_t rest = value & (2 * half - 1);
    const uint64_t kept = value >> bits;
    return static_cast<uint32_t>(kept + (rest > half || (rest == half && (kept & 1) != 0)));
}

}  // namespace

const std::array<float, 65536> kFp16Values = [] {
    std::array<float, 65536> values{};
    for (int i = 0; i < 65536; ++i) values[static_cast<size_t>(i)] = half_value(static_cast<uint16_t>(i));
    return values;
}();

const std::array<float, 256> kE4m3Values = [] {
    std::array<float, 256> values{};
    for (int i = 0; i < 256; ++i) values[static_cast<size_t>(i)] = e4m3_value(static_cast<uint8_t>(i));
    return values;
}();

float from_fp16(uint16_t bits) { return kFp16Values[bits]; }
float from_bf16(uint16_t bits) { return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16); }

uint16_t to_fp16(float value) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, value);
    const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return 0x7FFF;
    if (magnitude >= 0x47800000) return sign | 0x7C00;  // 2^16 or more
    const int exponent = static_cast<int>(magnitude >> 23) - 112;
    if (exponent > 0) return static_cast<uint16_t>(sign + round_off(magnitude - (112u << 23), 13));
    if (exponent < -10) return sign;
    return static_cast<uint16_t>(sign + round_off((magnitude & 0x7FFFFF) | 0x800000, 14 - exponent));
}

uint16_t to_bf16(float value) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, value);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;
    return static_cast<uint16_t>(round_off(bits, 16));
}

uint8_t to_e4m3(float value) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, value);
    const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80);
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) return 0x7F;
    const float absolute = __builtin_bit_cast(float, magnitude);
    if (absolute >= 448.0f) return sign | 0x7E;
    const int exponent = static_cast<int>(magnitude >> 23) - 120;
    uint32_t result = 0;
    if (exponent > 0) {
        result = round_off(magnitude - (120u << 23), 20);
    } else if (exponent >= -4) {
        result = round_off((magnitude & 0x7FFFFF) | 0x800000, 21 - exponent);
    }
    return static_cast<uint8_t>(sign | (result > 0x7E ? 0x7E : result));
}

}  // namespace emulator
