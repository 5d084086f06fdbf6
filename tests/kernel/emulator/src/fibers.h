// Stacks, and the switch from one to another. x86-64 only.
#pragma once

#include <cstddef>

#include "cuda_runtime.h"

extern "C" void emulator_switch(void** save, void* restore);

namespace emulator {

constexpr size_t kStackBytes = 128 * 1024;

char* stack_of(size_t number);                         // the lower end of its memory
void free_stacks();
void* prepare_stack(char* stack, void (*function)());  // its pointer, so that a switch enters the function

}  // namespace emulator
