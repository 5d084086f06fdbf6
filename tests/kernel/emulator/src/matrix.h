#pragma once

#include <string>

#include "ptx.h"

namespace emulator {

enum class Element { kFp16, kBf16, kE4m3 };

Element element_of(const std::string& name);
float value_of(Element element, uint32_t word, int index);  // of the elements in a 32-bit word

void wgmma_issue(Frame& frame, const Instruction& i);
void wgmma_fence(Frame& frame, const Instruction& i);
void wgmma_commit(Frame& frame, const Instruction& i);
void wgmma_wait(Frame& frame, const Instruction& i);

// XORs the 16-byte unit of a shared address with its row, as TMA and wgmma do for a swizzle of so many bytes (0 for none).
inline uint32_t swizzled(uint32_t address, int bytes) {
    return address ^ ((address >> 7 & (static_cast<uint32_t>(bytes) / 16 - (bytes > 0 ? 1u : 0u))) << 4);
}

}  // namespace emulator
