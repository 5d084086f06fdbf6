#include "fibers.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#if !defined(__x86_64__)
#error "the emulator switches stacks on x86-64 only"
#endif

asm(R"(
.text
.globl emulator_switch
.type emulator_switch, @function
emulator_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
.size emulator_switch, .-emulator_switch
)");

namespace emulator {

namespace {
constexpr size_t kMostStacks = 8192;
constexpr size_t kStackGuardBytes = 4096;
char* stacks = nullptr;
size_t guarded_stacks = 0;
}  // namespace

char* stack_of(size_t number) {
    if (stacks == nullptr) {
        void* memory = mmap(nullptr, kMostStacks * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED || number >= kMostStacks) std::abort();
        stacks = static_cast<char*>(memory);
    }
    if (number >= kMostStacks) std::abort();
    for (; guarded_stacks <= number; ++guarded_stacks) mprotect(stacks + guarded_stacks * kStackBytes, kStackGuardBytes, PROT_NONE);
    return stacks + number * kStackBytes;
}

void free_stacks() {
    if (stacks != nullptr) munmap(stacks, kMostStacks * kStackBytes);
    stacks = nullptr;
    guarded_stacks = 0;
}

void* prepare_stack(char* stack, void (*function)()) {
    auto* top = reinterpret_cast<uint64_t*>(stack + kStackBytes - 64);
    *--top = 0;                                        // where the function would return to
    *--top = reinterpret_cast<uint64_t>(function);     // where the switch returns to
    for (int i = 0; i < 6; ++i) *--top = 0;            // the saved registers
    return top;
}

}  // namespace emulator
