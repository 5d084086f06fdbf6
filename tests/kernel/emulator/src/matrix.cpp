// ldmatrix, stmatrix and mma.sync: a warp's matrices in registers.
#include "matrix.h"

#include <cstring>

#include "numbers.h"
#include "ptx.h"

namespace emulator {

Element element_of(const std::string& name) {
    if (name == "f16") return Element::kFp16;
    if (name == "bf16") return Element::kBf16;
    if (name == "e4m3") return Element::kE4m3;
    fail("asm: operands of %s are not emulated", name.c_str());
}

float value_of(Element element, uint32_t word, int index) {
    if (element == Element::kE4m3) return kE4m3Values[word >> 8 * index & 0xFF];
    const auto bits = static_cast<uint16_t>(word >> 16 * index);
    return element == Element::kFp16 ? kFp16Values[bits] : from_bf16(bits);
}

namespace {

int count_of(const Instruction& i) { return i.has("x4") ? 4 : i.has("x2") ? 2 : 1; }

uint32_t row_address(Meeting& meeting, const Argument& memory, int lane, const char* name) {
    if (memory.kind != Argument::kMemory) fail("asm: an address must be in brackets");
    const uint32_t address = lane_frame(meeting, lane).word(memory.parts[0]) + static_cast<uint32_t>(memory.number);
    if (address % 16 != 0) fail("%s: lane %d gives the misaligned shared address %u", name, lane, address);
    return address;
}

void act_load(Warp& warp, Meeting& meeting) {
    const Instruction& i = *static_cast<const Instruction*>(meeting.instruction);
    const Argument& registers = i.arguments[0];
    for (int matrix = 0; matrix < count_of(i); ++matrix) {
        uint16_t elements[8][8];
        for (int row = 0; row < 8; ++row) {
            const int lane = matrix * 8 + row;
            const uint32_t address = row_address(meeting, i.arguments[1], lane, "ldmatrix");
            check_shared_read(*warp.cta, address, 16, "ldmatrix", false);
            note_shared(warp.threads[lane], *warp.cta, address, 16, false, false);
            std::memcpy(elements[row], shared_at(*warp.cta, address, 16, "ldmatrix"), 16);
        }
        for (int lane = 0; lane < kLanes; ++lane) {
            const int r = lane / 4, c = lane % 4 * 2;
            const bool transposed = i.has("trans");
            const uint32_t low = transposed ? elements[c][r] : elements[r][c];
            const uint32_t high = transposed ? elements[c + 1][r] : elements[r][c + 1];
            lane_frame(meeting, lane).write(registers.parts[static_cast<size_t>(matrix)], high << 16 | low);
        }
    }
}

void act_store(Warp& warp, Meeting& meeting) {
    const Instruction& i = *static_cast<const Instruction*>(meeting.instruction);
    const Argument& registers = i.arguments[1];
    for (int matrix = 0; matrix < count_of(i); ++matrix) {
        for (int row = 0; row < 8; ++row) {
            const int lane = matrix * 8 + row;
            const uint32_t address = row_address(meeting, i.arguments[0], lane, "stmatrix");
            check_shared_write(*warp.cta, address, 16, "stmatrix");
            note_shared(warp.threads[lane], *warp.cta, address, 16, true, false);
            auto* units = reinterpret_cast<uint16_t*>(shared_at(*warp.cta, address, 16, "stmatrix"));
            for (int column = 0; column < 8; ++column) {
                const Argument& part = registers.parts[static_cast<size_t>(matrix)];
                const int holder = i.has("trans") ? column * 4 + row / 2 : row * 4 + column / 2;
                const int half = i.has("trans") ? row % 2 : column % 2;
                units[column] = static_cast<uint16_t>(lane_frame(meeting, holder).word(part) >> 16 * half);
            }
        }
    }
}

void check_form(const Instruction& i) {
    if (!i.has("m8n8") || !i.has("b16") || !i.has("sync") || !i.has("aligned")) fail("asm: %s is not emulated", i.opcode.c_str());
}

void ldmatrix(Frame& frame, const Instruction& i) {
    check_form(i);
    meet(&i, i.opcode.c_str(), ~0u, &frame, act_load);
}
void stmatrix(Frame& frame, const Instruction& i) {
    check_form(i);
    meet(&i, i.opcode.c_str(), ~0u, &frame, act_store);
}

// movmatrix: one 8 x 8 matrix in registers is transposed.
void act_transpose(Warp&, Meeting& meeting) {
    const Instruction& i = *static_cast<const Instruction*>(meeting.instruction);
    uint16_t elements[8][8];
    for (int lane = 0; lane < kLanes; ++lane) {
        const uint32_t pair = lane_frame(meeting, lane).word(i.arguments[1]);
        for (int half = 0; half < 2; ++half) elements[lane / 4][lane % 4 * 2 + half] = static_cast<uint16_t>(pair >> 16 * half);
    }
    for (int lane = 0; lane < kLanes; ++lane) {
        const uint32_t low = elements[lane % 4 * 2][lane / 4], high = elements[lane % 4 * 2 + 1][lane / 4];
        lane_frame(meeting, lane).write(i.arguments[0], high << 16 | low);
    }
}
void movmatrix(Frame& frame, const Instruction& i) {
    check_form(i);
    if (!i.has("trans")) fail("asm: %s is not emulated", i.opcode.c_str());
    meet(&i, i.opcode.c_str(), ~0u, &frame, act_transpose);
}

// mma.sync.aligned.m16n8k{16, 32}.row.col.f32.A.B.f32
void act_mma(Warp&, Meeting& meeting) {
    const Instruction& i = *static_cast<const Instruction*>(meeting.instruction);
    const Element element = element_of(i.words[7]);
    const int per_word = element == Element::kE4m3 ? 4 : 2;
    const int k_size = 8 * per_word;
    float a[16][32], b[32][8];
    for (int lane = 0; lane < kLanes; ++lane) {
        const Frame& frame = lane_frame(meeting, lane);
        const int group = lane / 4, quad = lane % 4;
        for (int word = 0; word < 4; ++word) {
            const uint32_t bits = frame.word(i.arguments[1].parts[static_cast<size_t>(word)]);
            for (int e = 0; e < per_word; ++e) a[group + word % 2 * 8][word / 2 * k_size / 2 + quad * per_word + e] = value_of(element, bits, e);
        }
        for (int word = 0; word < 2; ++word) {
            const uint32_t bits = frame.word(i.arguments[2].parts[static_cast<size_t>(word)]);
            for (int e = 0; e < per_word; ++e) b[word * k_size / 2 + quad * per_word + e][group] = value_of(element, bits, e);
        }
    }
    for (int lane = 0; lane < kLanes; ++lane) {
        Frame& frame = lane_frame(meeting, lane);
        for (int c = 0; c < 4; ++c) {
            const int row = lane / 4 + c / 2 * 8, column = lane % 4 * 2 + c % 2;
            float sum = frame.real(i.arguments[3].parts[static_cast<size_t>(c)]);
            for (int k = 0; k < k_size; ++k) sum += a[row][k] * b[k][column];
            frame.write_real(i.arguments[0].parts[static_cast<size_t>(c)], sum);
        }
    }
}

void mma(Frame& frame, const Instruction& i) {
    const bool shape = i.words.size() == 10 && (i.words[3] == "m16n8k16" || i.words[3] == "m16n8k32");
    if (!shape || i.words[4] != "row" || i.words[5] != "col" || i.words[6] != "f32" || i.words[7] != i.words[8]) fail("asm: %s is not emulated", i.opcode.c_str());
    if ((i.words[3] == "m16n8k32") != (i.words[7] == "e4m3")) fail("asm: %s does not exist", i.opcode.c_str());
    meet(&i, i.opcode.c_str(), ~0u, &frame, act_mma);
}

}  // namespace

const std::vector<Entry>& matrix_entries() {
    static const std::vector<Entry> entries = {
        {"ldmatrix", ldmatrix},
        {"movmatrix", movmatrix},
        {"stmatrix", stmatrix},
        {"mma.sync.aligned", mma},
        {"wgmma.mma_async.sync.aligned", wgmma_issue},
        {"wgmma.fence.sync.aligned", wgmma_fence},
        {"wgmma.commit_group.sync.aligned", wgmma_commit},
        {"wgmma.wait_group.sync.aligned", wgmma_wait},
    };
    return entries;
}

}  // namespace emulator
