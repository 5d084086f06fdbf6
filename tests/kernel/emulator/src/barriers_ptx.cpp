// The barrier instructions, fences, and setmaxnreg.
#include <algorithm>

#include "ptx.h"

namespace emulator {

void init_mbarrier(Cta& cta, uint32_t address, uint32_t count);
void expect_bytes(Mbarrier& barrier, uint32_t address, uint32_t bytes);
bool try_wait(Cta& cta, uint32_t address, uint32_t parity);
bool test_wait(Cta& cta, uint32_t address, uint32_t parity);
int named_barrier(const void* site, const char* name, uint32_t number, uint32_t threads, bool waits, bool predicate);

namespace {

uint32_t address_of(const Frame& frame, const Argument& argument) {
    if (argument.kind != Argument::kMemory) fail("asm: an address must be in brackets");
    return frame.word(argument.parts[0]) + static_cast<uint32_t>(argument.number);
}

void init(Frame& frame, const Instruction& i) {
    init_mbarrier(*current->cta, address_of(frame, i.arguments[0]), frame.word(i.arguments[1]));
}

void invalidate(Frame& frame, const Instruction& i) {
    const uint32_t address = address_of(frame, i.arguments[0]);
    mbarrier_at(*current->cta, address, "mbarrier.inval");
    current->cta->mbarriers.erase(address);
    for (uint32_t k = 0; k < 8; ++k) current->cta->shadow[address - kSharedBase + k] = 0;
}

// mbarrier.arrive{.expect_tx} state or _, [address]{, count or bytes}
void arrive_instruction(Frame& frame, const Instruction& i) {
    if (i.arguments[0].kind != Argument::kNothing) fail("asm: mbarrier.arrive with a state is not emulated");
    const uint32_t address = address_of(frame, i.arguments[1]);
    const uint32_t number = i.arguments.size() > 2 ? frame.word(i.arguments[2]) : 1;
    Mbarrier& barrier = mbarrier_at(*current->cta, address, "mbarrier.arrive");
    const bool expects = i.has("expect_tx");
    if (expects) expect_bytes(barrier, address, number);
    arrive(*current, barrier, address, expects ? 1 : static_cast<int>(number));
    maybe_yield();
}

void expect(Frame& frame, const Instruction& i) {
    const uint32_t address = address_of(frame, i.arguments[0]);
    expect_bytes(mbarrier_at(*current->cta, address, "mbarrier.expect_tx"), address, frame.word(i.arguments[1]));
}

void wait(Frame& frame, const Instruction& i) {
    if (!i.has("parity")) fail("asm: %s is not emulated", i.opcode.c_str());
    const auto function = i.words[1] == "test_wait" ? test_wait : try_wait;
    frame.write(i.arguments[0], function(*current->cta, address_of(frame, i.arguments[1]), frame.word(i.arguments[2])));
}

void bar(Frame& frame, const Instruction& i) {
    const bool reduces = i.has("red");
    const size_t first = reduces ? 1 : 0;
    const bool counts = i.arguments.size() > first + (reduces ? 2 : 1);
    const uint32_t number = frame.word(i.arguments[first]);
    const uint32_t threads = counts ? frame.word(i.arguments[first + 1]) : static_cast<uint32_t>(current->cta->threads.size());
    const bool predicate = !reduces || frame.read(i.arguments.back()) != 0;
    const int result = named_barrier(&i, i.opcode.c_str(), number, threads, !i.has("arrive"), predicate);
    if (reduces) frame.write(i.arguments[0], static_cast<uint64_t>(i.has("and") ? result & 1 : result >> 1));
}

void nothing(Frame&, const Instruction&) {}

void fence_proxy_instruction(Frame&, const Instruction& i) {
    const std::string& memory = i.words.back();
    fence_proxy(*current, memory != "global", memory == "async" || memory == "global");
}

void fence_memory(Frame&, const Instruction&) { thread_fence(); }

constexpr int kRegisterFile = 65536;

int registers_of(const Warp& warp) {
    const int at_launch = kRegisterFile / static_cast<int>(warp.cta->threads.size()) / 8 * 8;
    return warp.registers != 0 ? warp.registers : std::min(at_launch, 255);
}

struct RegisterFrame {
    int registers;
    bool increases;
};

void act_setmaxnreg(Warp& warp, Meeting& meeting) {
    const auto& frame = *static_cast<RegisterFrame*>(meeting.frames[0]);
    const int before = registers_of(warp);
    if (frame.registers % 8 != 0 || frame.registers < 24 || frame.registers > 256) fail("setmaxnreg: bad count %d", frame.registers);
    if (frame.increases ? frame.registers < before : frame.registers > before) {
        fail("setmaxnreg.%s: %d registers, but the warp has %d", frame.increases ? "inc" : "dec", frame.registers, before);
    }
    if (frame.increases) return;
    warp.registers = frame.registers;
    wake(warp.cta->waiting_for_registers);
}

// An increase waits until other warps have given registers back.
void setmaxnreg(Frame& frame, const Instruction& i) {
    RegisterFrame own{static_cast<int>(frame.word(i.arguments[0])), i.has("inc")};
    meet(&i, "setmaxnreg", ~0u, &own, act_setmaxnreg);
    Warp& warp = *current->warp;
    while (own.increases && warp.registers != own.registers) {
        int total = (own.registers - registers_of(warp)) * kLanes;
        for (const Warp& other : warp.cta->warps) total += registers_of(other) * kLanes;
        if (total <= kRegisterFile) {
            warp.registers = own.registers;
        } else {
            warp.cta->waiting_for_registers.push_back(current);
            block("setmaxnreg.inc, registers of other warps", ~0u);
        }
    }
}

}  // namespace

const std::vector<Entry>& barrier_entries() {
    static const std::vector<Entry> entries = {
        {"mbarrier.init", init},
        {"mbarrier.inval", invalidate},
        {"mbarrier.arrive", arrive_instruction},
        {"mbarrier.expect_tx", expect},
        {"mbarrier.try_wait", wait},
        {"mbarrier.test_wait", wait},
        {"bar.sync", bar},
        {"bar.arrive", bar},
        {"bar.red", bar},
        {"barrier.sync", bar},
        {"barrier.cta.sync", bar},
        {"barrier.cta.arrive", bar},
        {"fence.mbarrier_init.release.cluster", nothing},
        {"fence.proxy.async", fence_proxy_instruction},
        {"fence.acq_rel", fence_memory},
        {"fence.sc", fence_memory},
        {"membar", fence_memory},
        {"setmaxnreg", setmaxnreg},
        {"griddepcontrol", nothing},
    };
    return entries;
}

}  // namespace emulator
