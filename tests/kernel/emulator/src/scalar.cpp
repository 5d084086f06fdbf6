// Instructions of one thread on its registers.
#include <cmath>

#include "numbers.h"
#include "ptx.h"

namespace emulator {

namespace {

using Arguments = const std::vector<Argument>&;

void ex2(Frame& frame, const Instruction& i) { frame.write_real(i.arguments[0], std::exp2(frame.real(i.arguments[1]))); }
void lg2(Frame& frame, const Instruction& i) { frame.write_real(i.arguments[0], std::log2(frame.real(i.arguments[1]))); }
void rcp(Frame& frame, const Instruction& i) { frame.write_real(i.arguments[0], 1.0f / frame.real(i.arguments[1])); }
void tanh_approx(Frame& frame, const Instruction& i) { frame.write_real(i.arguments[0], std::tanh(frame.real(i.arguments[1]))); }

// max.NaN and min.NaN give NaN if one operand is, the others the operand that is not.
void extreme(Frame& frame, const Instruction& i) {
    const float a = frame.real(i.arguments[1]), b = frame.real(i.arguments[2]);
    float result = i.words[0] == "max" ? std::fmax(a, b) : std::fmin(a, b);
    if (i.has("NaN") && (std::isnan(a) || std::isnan(b))) result = __builtin_nanf("");
    if (!i.has("f32")) fail("asm: %s is not emulated", i.opcode.c_str());
    frame.write_real(i.arguments[0], result);
}

void fma_f32(Frame& frame, const Instruction& i) {
    frame.write_real(i.arguments[0], std::fma(frame.real(i.arguments[1]), frame.real(i.arguments[2]), frame.real(i.arguments[3])));
}

// cvt of a pair: the first source goes to the upper half.
void cvt(Frame& frame, const Instruction& i) {
    Arguments arguments = i.arguments;
    const std::string& to = i.words[i.words.size() - 2];
    const std::string& from = i.words.back();
    if (!i.has("rn")) fail("asm: %s is not emulated", i.opcode.c_str());
    if (from == "f32" && to == "f16x2") {
        frame.write(arguments[0], static_cast<uint32_t>(to_fp16(frame.real(arguments[1]))) << 16 | to_fp16(frame.real(arguments[2])));
    } else if (from == "f32" && to == "bf16x2") {
        frame.write(arguments[0], static_cast<uint32_t>(to_bf16(frame.real(arguments[1]))) << 16 | to_bf16(frame.real(arguments[2])));
    } else if (from == "f32" && to == "e4m3x2" && i.has("satfinite")) {
        frame.write(arguments[0], static_cast<uint32_t>(to_e4m3(frame.real(arguments[1]))) << 8 | to_e4m3(frame.real(arguments[2])));
    } else if (from == "e4m3x2" && to == "f16x2") {
        const uint32_t pair = frame.word(arguments[1]);
        frame.write(arguments[0], static_cast<uint32_t>(to_fp16(kE4m3Values[pair >> 8 & 0xFF])) << 16 | to_fp16(kE4m3Values[pair & 0xFF]));
    } else if (from == "f16x2" && to == "e4m3x2" && i.has("satfinite")) {
        const uint32_t pair = frame.word(arguments[1]);
        frame.write(arguments[0], static_cast<uint32_t>(to_e4m3(from_fp16(static_cast<uint16_t>(pair >> 16)))) << 8 | to_e4m3(from_fp16(static_cast<uint16_t>(pair))));
    } else {
        fail("asm: %s is not emulated", i.opcode.c_str());
    }
}

// Between a register and a list of its equal parts, or a plain copy.
void mov(Frame& frame, const Instruction& i) {
    const Argument& to = i.arguments[0];
    const Argument& from = i.arguments[1];
    const int bits = i.words.back() == "b64" || i.words.back() == "u64" ? 64 : i.words.back() == "b16" ? 16 : 32;
    if (to.kind == Argument::kList) {
        const int width = bits / static_cast<int>(to.parts.size());
        for (size_t k = 0; k < to.parts.size(); ++k) {
            frame.write(to.parts[k], frame.read(from) >> (static_cast<int>(k) * width) & ((uint64_t{1} << width) - 1));
        }
    } else if (from.kind == Argument::kList) {
        const int width = bits / static_cast<int>(from.parts.size());
        uint64_t value = 0;
        for (size_t k = 0; k < from.parts.size(); ++k) {
            value |= (frame.read(from.parts[k]) & ((uint64_t{1} << width) - 1)) << (static_cast<int>(k) * width);
        }
        frame.write(to, value);
    } else {
        frame.write(to, frame.read(from));
    }
}

void prmt(Frame& frame, const Instruction& i) {
    frame.write(i.arguments[0], __byte_perm(frame.word(i.arguments[1]), frame.word(i.arguments[2]), frame.word(i.arguments[3])));
}

void setp(Frame& frame, const Instruction& i) {
    const bool is_signed = i.words.back()[0] == 's';
    const uint32_t a = frame.word(i.arguments[1]), b = frame.word(i.arguments[2]);
    const bool less = is_signed ? static_cast<int>(a) < static_cast<int>(b) : a < b;
    const std::string& kind = i.words[1];
    bool result = false;
    if (kind == "ne") result = a != b;
    else if (kind == "eq") result = a == b;
    else if (kind == "lt") result = less;
    else if (kind == "ge") result = !less;
    else if (kind == "gt") result = !less && a != b;
    else if (kind == "le") result = less || a == b;
    else fail("asm: %s is not emulated", i.opcode.c_str());
    frame.write(i.arguments[0], result);
}

void selp(Frame& frame, const Instruction& i) {
    frame.write(i.arguments[0], frame.read(frame.read(i.arguments[3]) != 0 ? i.arguments[1] : i.arguments[2]));
}

void integer(Frame& frame, const Instruction& i) {
    const uint64_t a = frame.read(i.arguments[1]), b = frame.read(i.arguments[2]);
    const std::string& kind = i.words[0];
    frame.write(i.arguments[0], kind == "and" ? a & b : kind == "or" ? a | b : kind == "xor" ? a ^ b : kind == "add" ? a + b : a - b);
}

// Bitwise logic of three words, by a table.
void lop3(Frame& frame, const Instruction& i) {
    const uint32_t a = frame.word(i.arguments[1]), b = frame.word(i.arguments[2]), c = frame.word(i.arguments[3]);
    const uint32_t table = frame.word(i.arguments[4]);
    uint32_t result = 0;
    for (int bit = 0; bit < 32; ++bit) {
        const uint32_t index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
        result |= (table >> index & 1) << bit;
    }
    frame.write(i.arguments[0], result);
}

void atom_inc(Frame& frame, const Instruction& i) {
    void* address = reinterpret_cast<void*>(frame.read(i.arguments[1].parts[0]));
    frame.write(i.arguments[0], atomic(Atomic::kIncrement, address, frame.word(i.arguments[2])));
}

// One lane of the warp, always the same.
void elect(Frame& frame, const Instruction& i) {
    frame.write(i.arguments[0], 0);
    frame.write(i.arguments[1], current->lane == 0);
    exchange(Exchange::kBallot, frame.word(i.arguments.back()), 1, 0);
}

void prefetch(Frame& frame, const Instruction& i) {
    if (frame.read(i.arguments[0].parts[0]) == 0) fail("prefetch: a null pointer");
}

}  // namespace

const std::vector<Entry>& scalar_entries() {
    static const std::vector<Entry> entries = {
        {"ex2.approx.ftz.f32", ex2}, {"lg2.approx.ftz.f32", lg2}, {"rcp.approx.ftz.f32", rcp}, {"tanh.approx.f32", tanh_approx}, {"max", extreme},
        {"min", extreme},            {"fma.rn.f32", fma_f32},     {"cvt", cvt},                {"mov", mov},
        {"prmt.b32", prmt},          {"setp", setp},              {"selp", selp},              {"and", integer},
        {"or", integer},             {"xor", integer},            {"add", integer},            {"sub", integer},
        {"lop3.b32", lop3},          {"atom.global.inc.u32", atom_inc}, {"elect.sync", elect}, {"prefetch", prefetch},
    };
    return entries;
}

}  // namespace emulator
