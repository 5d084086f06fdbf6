// What emulator_rewrite.py makes of an asm statement: its text and its operands, with the addresses of variables.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace emulator {

struct Program;

struct Site {
    const char* text;
    const char* place;
    const Program* program = nullptr;  // the parsed text
};

struct Operand {
    void* address;   // null: a value, not a variable
    uint64_t value;  // of an input
    char constraint;
    bool written;

    uint64_t read() const;
    uint64_t read_now() const;  // the variable's present value, also if that changed after the statement
    void write(uint64_t bits) const;
};

template <char kConstraint, class T>
constexpr bool fits() {
    if (kConstraint == 'f') return std::is_same_v<T, float>;
    if (kConstraint == 'd') return std::is_same_v<T, double>;
    if (kConstraint == 'n') return std::is_integral_v<T> || std::is_enum_v<T>;
    constexpr bool kIsInteger = std::is_integral_v<T> || std::is_enum_v<T> || std::is_pointer_v<T>;
    constexpr int kBytes = kConstraint == 'h' ? 2 : kConstraint == 'r' ? 4 : kConstraint == 'l' ? 8 : 0;
    return kIsInteger && (sizeof(T) == kBytes || (kConstraint == 'r' && std::is_same_v<T, bool>));
}

template <class T>
__attribute__((no_sanitize("thread"))) inline uint64_t bits_of(const T& value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <char kConstraint, bool kIsRead, class T>
__attribute__((no_sanitize("thread"))) inline Operand output(T& variable) {
    static_assert(fits<kConstraint, T>(), "the constraint of an asm operand does not fit its type");
    return {&variable, kIsRead ? bits_of(variable) : 0, kConstraint, true};
}

template <char kConstraint, class T>
__attribute__((no_sanitize("thread"))) inline Operand input(T&& value) {
    using Value = std::remove_cv_t<std::remove_reference_t<T>>;
    static_assert(fits<kConstraint, std::decay_t<T>>(), "the constraint of an asm operand does not fit its type");
    if constexpr (std::is_array_v<Value>) {
        return {nullptr, reinterpret_cast<uint64_t>(value), kConstraint, false};
    } else if constexpr (std::is_lvalue_reference_v<T>) {
        return {const_cast<Value*>(&value), bits_of(value), kConstraint, false};
    } else {
        return {nullptr, bits_of(value), kConstraint, false};
    }
}

void execute(Site& site, const Operand* operands, int count);

struct SharedSite {
    const char* place;
};
void* static_shared(const SharedSite& site, uint64_t bytes, uint64_t alignment);
void* dynamic_shared();

template <class T>
T& static_shared(const SharedSite& site) {
    return *static_cast<T*>(static_shared(site, sizeof(T), alignof(T) < 16 ? 16 : alignof(T)));
}

}  // namespace emulator
