#pragma once

#include <array>
#include <cstdint>

namespace emulator {

extern const std::array<float, 65536> kFp16Values;
extern const std::array<float, 256> kE4m3Values;
float from_fp16(uint16_t bits);
float from_bf16(uint16_t bits);
uint16_t to_fp16(float value);
uint16_t to_bf16(float value);
uint8_t to_e4m3(float value);  // saturates at 448, NaN stays NaN

}  // namespace emulator
