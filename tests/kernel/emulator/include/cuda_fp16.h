// fp16 in device code.
#pragma once

#include <cstdint>

#include "emulator/device.h"

namespace emulator {
float from_fp16(uint16_t bits);
uint16_t to_fp16(float value);  // nearest, ties to even
}  // namespace emulator

struct __half {
    uint16_t bits;

    __half() = default;
    __half(float value) : bits(emulator::to_fp16(value)) {}
    operator float() const { return emulator::from_fp16(bits); }
};
struct alignas(4) __half2 {
    __half x, y;
};

inline float __half2float(__half value) { return value; }
inline __half __float2half_rn(float value) { return __half(value); }
inline __half __float2half(float value) { return __half(value); }
inline __half2 __float2half2_rn(float value) { return {__half(value), __half(value)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline float2 __half22float2(__half2 value) { return {float(value.x), float(value.y)}; }
inline __half2 __hmul2(__half2 a, __half2 b) { return {__half(float(a.x) * float(b.x)), __half(float(a.y) * float(b.y))}; }
inline __half __ushort_as_half(uint16_t bits) { return __builtin_bit_cast(__half, bits); }
inline uint16_t __half_as_ushort(__half value) { return value.bits; }
