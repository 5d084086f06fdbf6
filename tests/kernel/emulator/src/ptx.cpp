// Reads the text of asm statements and runs it, one thread at a time.
#include "ptx.h"

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <map>

namespace emulator {

uint64_t Operand::read() const { return value; }

uint64_t Operand::read_now() const {
    if (address == nullptr) return value;
    uint64_t bits = 0;
    std::memcpy(&bits, address, constraint == 'l' || constraint == 'd' ? 8 : constraint == 'h' ? 2 : 4);
    return bits;
}

void Operand::write(uint64_t bits) const {
    if (!written) fail("asm writes an operand that is an input");
    std::memcpy(address, &bits, constraint == 'l' || constraint == 'd' ? 8 : constraint == 'h' ? 2 : 4);
}

uint64_t Frame::read(const Argument& argument) const {
    switch (argument.kind) {
        case Argument::kOperand: return operands[argument.number].read();
        case Argument::kRegister: return registers[argument.number];
        case Argument::kNumber: return static_cast<uint64_t>(argument.number);
        default: fail("asm: this argument has no value");
    }
}

uint64_t Frame::read_now(const Argument& argument) const {
    return argument.kind == Argument::kOperand ? operands[argument.number].read_now() : read(argument);
}

void Frame::write(const Argument& argument, uint64_t bits) {
    if (argument.kind == Argument::kOperand) {
        operands[argument.number].write(bits);
    } else if (argument.kind == Argument::kRegister) {
        registers[argument.number] = bits;
    } else if (argument.kind != Argument::kNothing) {
        fail("asm: this argument cannot be written");
    }
}

float Frame::real(const Argument& argument) const { return __builtin_bit_cast(float, word(argument)); }
void Frame::write_real(const Argument& argument, float value) { write(argument, __builtin_bit_cast(uint32_t, value)); }

bool Instruction::has(const char* word) const {
    for (const std::string& own : words) {
        if (own == word) return true;
    }
    return false;
}

namespace {

class Parser {
public:
    explicit Parser(const Site& site) : site_(site), text_(site.text) {}

    Program run() {
        Program program;
        for (;;) {
            skip();
            if (at_ == text_.size()) break;
            statement(program);
        }
        for (const auto& [index, label] : branches_) {
            if (labels_.count(label) == 0) refuse("no label '" + label + "'");
            program.instructions[index].target = labels_[label];
        }
        return program;
    }

private:
    [[noreturn]] void refuse(const std::string& why) {
        fail("%s: asm '%.200s': %s", site_.place, site_.text, why.c_str());
    }

    char peek() { return at_ < text_.size() ? text_[at_] : '\0'; }
    void skip() {
        while (at_ < text_.size() && (std::isspace(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == ';')) ++at_;
    }
    void blanks() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    }
    void expect(char c) {
        blanks();
        if (peek() != c) refuse(std::string("expected '") + c + "' at '" + text_.substr(at_, 20) + "'");
        ++at_;
    }
    std::string name() {
        blanks();
        const size_t first = at_;
        while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || std::strchr("_.:$%=", text_[at_]) != nullptr)) {
            if (text_[at_] == ':' && peek_at(1) != ':') break;
            at_ += text_[at_] == ':' ? 2 : 1;
        }
        return text_.substr(first, at_ - first);
    }
    char peek_at(size_t ahead) { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

    void statement(Program& program) {
        if (peek() == '{' || peek() == '}') return void(++at_);
        Instruction instruction;
        instruction.place = site_.place;
        if (peek() == '@') predicate(instruction);
        const std::string opcode = name();
        if (opcode.empty()) refuse("cannot read '" + text_.substr(at_, 20) + "'");
        if (peek() == ':') {
            ++at_;
            labels_[opcode] = static_cast<int>(program.instructions.size());
            return;
        }
        if (opcode == ".reg") return declare();
        if (opcode == "bra" || opcode == "bra.uni") {
            branches_[program.instructions.size()] = name();
        } else {
            read_arguments(instruction);
        }
        blanks();
        if (peek() != ';' && at_ != text_.size() && peek() != '}') refuse("expected ';' at '" + text_.substr(at_, 20) + "'");
        if (peek() == '}' ) refuse("no ';' before '}'");
        finish(instruction, opcode);
        program.instructions.push_back(instruction);
    }

    void predicate(Instruction& instruction) {
        ++at_;
        instruction.negated = peek() == '!';
        if (instruction.negated) ++at_;
        instruction.predicate = register_of(name());
    }

    int register_of(const std::string& name) {
        if (registers_.count(name) == 0) refuse("unknown name '" + name + "'");
        return registers_[name];
    }

    void declare() {
        name();  // the type
        do {
            const std::string declared = name();
            if (registers_.size() == kRegisters) refuse("too many registers");
            registers_.emplace(declared, static_cast<int>(registers_.size()));
            blanks();
        } while (peek() == ',' && ++at_);
    }

    void read_arguments(Instruction& instruction) {
        blanks();
        if (peek() == ';' || at_ == text_.size()) return;
        for (;;) {
            instruction.arguments.push_back(argument());
            blanks();
            if (peek() == '|') {  // a second result, as of shfl or setp
                ++at_;
                instruction.arguments.push_back(argument());
                blanks();
            }
            if (peek() != ',') return;
            ++at_;
        }
    }

    Argument argument() {
        blanks();
        if (peek() == '{') return list('}', Argument::kList);
        if (peek() == '[') return list(']', Argument::kMemory);
        if (peek() == '-' || (std::isdigit(static_cast<unsigned char>(peek())) != 0)) {
            char* end = nullptr;
            const long long value = std::strtoll(text_.c_str() + at_, &end, 0);
            at_ = static_cast<size_t>(end - text_.c_str());
            if (peek() == 'U' || peek() == 'u') ++at_;
            return {Argument::kNumber, value};
        }
        const std::string own = name();
        if (own == "_") return {Argument::kNothing, 0};
        if (own.size() > 1 && own[0] == '%' && std::isdigit(static_cast<unsigned char>(own[1])) != 0) return {Argument::kOperand, std::atoi(own.c_str() + 1)};
        return {Argument::kRegister, register_of(own)};
    }

    Argument list(char end, Argument::Kind kind) {
        ++at_;
        Argument whole{kind, 0};
        for (;;) {
            whole.parts.push_back(argument());
            blanks();
            if (peek() == '+') {  // [address + offset]
                ++at_;
                whole.number = argument().number;
                blanks();
            }
            if (peek() == end) return ++at_, whole;
            expect(',');
        }
    }

    void finish(Instruction& instruction, const std::string& opcode) {
        instruction.opcode = opcode;
        for (size_t first = 0; first <= opcode.size();) {
            const size_t dot = std::min(opcode.find('.', first), opcode.size());
            instruction.words.push_back(opcode.substr(first, dot - first));
            first = dot + 1;
        }
        instruction.handler = find_handler(instruction);
        if (instruction.handler == nullptr) refuse("the emulator does not know '" + opcode + "'");
    }

    const Site& site_;
    std::string text_;
    size_t at_ = 0;
    std::map<std::string, int> registers_;
    std::map<std::string, int> labels_;
    std::map<size_t, std::string> branches_;
};

void branch(Frame& frame, const Instruction& instruction) { frame.next = instruction.target; }

}  // namespace

Handler find_handler(Instruction& instruction) {
    const std::string& opcode = instruction.opcode;
    if (instruction.words[0] == "bra") return branch;
    for (const auto* entries : {&scalar_entries(), &matrix_entries(), &barrier_entries(), &copy_entries()}) {
        for (const Entry& entry : *entries) {
            const std::string prefix = entry.prefix;
            if (opcode.compare(0, prefix.size(), prefix) == 0 && (opcode.size() == prefix.size() || opcode[prefix.size()] == '.')) return entry.handler;
        }
    }
    return nullptr;
}

const Program& parse(const Site& site) {
    static std::map<std::string, Program> programs;
    const auto found = programs.find(site.text);
    if (found != programs.end()) return found->second;
    return programs.emplace(site.text, Parser(site).run()).first->second;
}

void execute(Site& site, const Operand* operands, int count) {
    if (site.program == nullptr) site.program = &parse(site);
    Frame frame{operands, {}, 0};
    const auto& instructions = site.program->instructions;
    for (int i = 0; i < count; ++i) {
        if (!operands[i].written) observe(operands[i].read());  // an accumulator may hold anything before its first wgmma
    }
    while (frame.next < static_cast<int>(instructions.size())) {
        const Instruction& instruction = instructions[static_cast<size_t>(frame.next++)];
        if (instruction.predicate >= 0 && (frame.registers[instruction.predicate] != 0) == instruction.negated) continue;
        instruction.handler(frame, instruction);
    }
}

}  // namespace emulator
