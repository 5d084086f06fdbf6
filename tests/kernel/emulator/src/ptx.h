// The text of an asm statement as instructions, and what their handlers get.
#pragma once

#include <string>
#include <vector>

#include "state.h"

namespace emulator {

struct Argument {
    enum Kind { kOperand, kRegister, kNumber, kNothing, kList, kMemory } kind;
    int64_t number;                // operand, register or value
    std::vector<Argument> parts{};  // of a list, or in brackets
};

struct Frame;
struct Instruction;
using Handler = void (*)(Frame&, const Instruction&);

struct Instruction {
    std::string opcode;
    std::vector<std::string> words;  // of the opcode, between dots
    std::vector<Argument> arguments;
    int predicate = -1;  // a register
    bool negated = false;
    int target = -1;  // of a branch
    Handler handler = nullptr;
    int numbers[3] = {};  // what the handler's `prepare` finds in the opcode
    const char* place = "";

    bool has(const char* word) const;
};

constexpr int kRegisters = 16;

struct Frame {
    const Operand* operands;
    uint64_t registers[kRegisters];
    int next;  // instruction

    uint64_t read(const Argument& argument) const;
    uint64_t read_now(const Argument& argument) const;
    void write(const Argument& argument, uint64_t bits);
    uint32_t word(const Argument& argument) const { return static_cast<uint32_t>(read(argument)); }
    float real(const Argument& argument) const;
    void write_real(const Argument& argument, float value);
};

inline Frame& lane_frame(Meeting& meeting, int lane) { return *static_cast<Frame*>(meeting.frames[lane]); }

struct Program {
    std::vector<Instruction> instructions;
    bool has_collective = false;
};

const Program& parse(const Site& site);
Handler find_handler(Instruction& instruction);  // null if there is none

// The handlers of one file, tried in turn.
struct Entry {
    const char* prefix;
    Handler handler;
};
const std::vector<Entry>& scalar_entries();
const std::vector<Entry>& matrix_entries();
const std::vector<Entry>& barrier_entries();
const std::vector<Entry>& copy_entries();

}  // namespace emulator
