// bf16 in device code.
#pragma once

#include <cstdint>

#include "emulator/device.h"

namespace emulator {
float from_bf16(uint16_t bits);
uint16_t to_bf16(float value);  // nearest, ties to even
}  // namespace emulator

struct __nv_bfloat16 {
    uint16_t bits;

    __nv_bfloat16() = default;
    __nv_bfloat16(float value) : bits(emulator::to_bf16(value)) {}
    operator float() const { return emulator::from_bf16(bits); }
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 value) { return value; }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
inline __nv_bfloat16 __ushort_as_bfloat16(uint16_t bits) { return __builtin_bit_cast(__nv_bfloat16, bits); }
inline uint16_t __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
