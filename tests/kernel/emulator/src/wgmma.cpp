// wgmma: issued now, computed when a warp waits for it. Until then its accumulators are NaN, and its operands must not change.
#include <cstdio>
#include <cstring>

#include "matrix.h"
#include "numbers.h"

namespace emulator {

// One warp's sixteen rows.
struct WgmmaCall {
    const Instruction* instruction;
    Element element;
    int n, k;
    bool accumulates, a_in_registers, a_is_transposed, b_is_transposed;
    uint64_t a, b;  // descriptors
    Operand fragment[kLanes][4];
    float* d[kLanes][128];
    float sums[16][256];
    bool committed;
    Clock clock;  // of lane 0 at the issue
};

namespace {

void read_shape(const Instruction& i, WgmmaCall& call) {
    int m = 0;
    if (std::sscanf(i.words[4].c_str(), "m%dn%dk%d", &m, &call.n, &call.k) != 3 || m != 64) fail("asm: %s is not emulated", i.opcode.c_str());
    if (i.words[5] != "f32" || i.words.size() != 8 || i.words[6] != i.words[7]) fail("asm: %s is not emulated", i.opcode.c_str());
    call.element = element_of(i.words[6]);
    if (call.k != (call.element == Element::kE4m3 ? 32 : 16) || call.n % 8 != 0 || call.n > 256) fail("asm: %s does not exist", i.opcode.c_str());
    if (i.arguments[0].parts.size() != static_cast<size_t>(call.n / 2)) fail("asm: %s has %zu accumulators", i.opcode.c_str(), i.arguments[0].parts.size());
}

void read_flags(const Frame& frame, const Instruction& i, WgmmaCall& call) {
    call.a_in_registers = i.arguments[1].kind == Argument::kList;
    const bool may_transpose = call.element != Element::kE4m3;
    const size_t expected = 6 + (may_transpose ? (call.a_in_registers ? 1 : 2) : 0);
    if (i.arguments.size() != expected) fail("asm: %s has %zu arguments instead of %zu", i.opcode.c_str(), i.arguments.size(), expected);
    if (frame.word(i.arguments[4]) != 1 || frame.word(i.arguments[5]) != 1) fail("asm: wgmma with a negated operand is not emulated");
    call.accumulates = frame.read(i.arguments[3]) != 0;
    call.a_is_transposed = may_transpose && !call.a_in_registers && frame.word(i.arguments[6]) == 1;
    call.b_is_transposed = may_transpose && frame.word(i.arguments.back()) == 1;
    call.a = call.a_in_registers ? 0 : frame.read(i.arguments[1]);
    call.b = frame.read(i.arguments[2]);
}

void read_lane(Meeting& meeting, int lane, const Instruction& i, WgmmaCall& call) {
    const Frame& frame = lane_frame(meeting, lane);
    const bool same = frame.read(i.arguments[2]) == call.b && (frame.read(i.arguments[3]) != 0) == call.accumulates;
    if (!same || (!call.a_in_registers && frame.read(i.arguments[1]) != call.a)) fail("wgmma: the descriptors of lanes 0 and %d differ", lane);
    for (size_t part = 0; part < static_cast<size_t>(call.n / 2); ++part) {
        const Operand& operand = frame.operands[i.arguments[0].parts[part].number];
        if (!operand.written || operand.constraint != 'f') fail("wgmma: accumulator %zu is not an output of type f", part);
        call.d[lane][part] = static_cast<float*>(operand.address);
    }
    if (!call.a_in_registers) return;
    for (size_t part = 0; part < 4; ++part) call.fragment[lane][part] = frame.operands[i.arguments[1].parts[part].number];
}

WgmmaCall* previous_on(Warp& warp, const float* d, const WgmmaCall* before) {
    WgmmaCall* found = nullptr;
    for (WgmmaCall* call : warp.wgmmas) {
        if (call == before) break;
        if (call->d[0][0] == d) found = call;
    }
    return found;
}

void act_issue(Warp& warp, Meeting& meeting) {
    const Instruction& i = *static_cast<const Instruction*>(meeting.instruction);
    if (!warp.wgmma_fenced) fail("wgmma: no wgmma.fence since the last wait");
    auto* call = new WgmmaCall{};
    call->instruction = &i;
    call->clock = warp.threads[0].clock;
    read_shape(i, *call);
    read_flags(lane_frame(meeting, 0), i, *call);
    for (int lane = 0; lane < kLanes; ++lane) read_lane(meeting, lane, i, *call);
    const bool is_chained = previous_on(warp, call->d[0][0], nullptr) != nullptr;
    for (int lane = 0; lane < kLanes; ++lane) {
        for (int part = 0; part < call->n / 2; ++part) {
            float& own = *call->d[lane][part];
            if (!is_chained) call->sums[lane / 4 + part / 2 % 2 * 8][part / 4 * 8 + lane % 4 * 2 + part % 2] = own;
            own = __builtin_nanf("");
        }
    }
    warp.wgmmas.push_back(call);
    warp.wgmma_log.push_back(reinterpret_cast<uintptr_t>(&i) * 31 + call->b * 7 + call->a);
    wake(warp.cta->waiting_for_wgmma);
}

// The byte address of an element in shared memory. `row` counts M or N.
uint32_t element_address(uint64_t descriptor, bool transposed, int bytes, int row, int k) {
    const auto start = static_cast<uint32_t>(descriptor & 0x3FFF) << 4;
    const auto leading = static_cast<uint32_t>(descriptor >> 16 & 0x3FFF) << 4;
    const auto stride = static_cast<uint32_t>(descriptor >> 32 & 0x3FFF) << 4;
    constexpr int kWidths[] = {16, 128, 64, 32};
    const int layout = static_cast<int>(descriptor >> 62);
    const int width = kWidths[layout];
    const auto u = [](int x) { return static_cast<uint32_t>(x); };
    if (layout == 0) {  // core matrices of 8 x 16 bytes
        if (transposed) fail("wgmma: transposed operands without a swizzle are not emulated");
        return start + u(row / 8) * stride + u(k * bytes / 16) * leading + u(row % 8 * 16 + k * bytes % 16);
    }
    uint32_t address;
    if (transposed) {
        const int columns = width / bytes;
        address = start + u(row / columns) * leading + u(k / 8) * stride + u(k % 8 * width + row % columns * bytes);
    } else {
        address = start + u(row / 8) * stride + u(row % 8 * width + k * bytes);
    }
    return swizzled(address, width);
}

// Reads an operand of `rows` times k in units of 16 bytes.
void read_shared(Warp& warp, const WgmmaCall& call, uint64_t descriptor, bool transposed, int first_row, int rows, float* out, bool row_major) {
    const int bytes = call.element == Element::kE4m3 ? 1 : 2;
    const int unit = 16 / bytes;
    Cta& cta = *warp.cta;
    if ((descriptor >> 49 & 7) != 0) fail("wgmma: a base offset is not emulated");
    for (int outer = 0; outer < (transposed ? call.k : rows); ++outer) {
        for (int inner = 0; inner < (transposed ? rows : call.k); inner += unit) {
            const int row = (transposed ? inner : outer) + first_row, k = transposed ? outer : inner;
            const uint32_t address = element_address(descriptor, transposed, bytes, row, k);
            if (address % 16 != 0) fail("wgmma: misaligned descriptor");
            check_shared_read(cta, address, 16, "wgmma", false);
            note_shared(warp.threads[0], cta, address, 16, false, true);
            check_fenced(warp.threads[0], cta, address, 16, "wgmma");
            uint32_t words[4];
            std::memcpy(words, shared_at(cta, address, 16, "wgmma"), 16);
            for (int e = 0; e < unit; ++e) {
                const int r = row - first_row + (transposed ? e : 0), kk = k + (transposed ? 0 : e);
                const int per_word = 4 / bytes;
                out[row_major ? r * call.k + kk : kk * 256 + r] = value_of(call.element, words[e / per_word], e % per_word);
            }
        }
    }
}

void read_registers(WgmmaCall& call, float* a) {
    const int per_word = call.element == Element::kE4m3 ? 4 : 2;
    for (int lane = 0; lane < kLanes; ++lane) {
        for (int word = 0; word < 4; ++word) {
            const Operand& operand = call.fragment[lane][word];
            if (operand.read_now() << 32 != operand.read() << 32) fail("wgmma: register %d of A in lane %d changed while it was in flight", word, lane);
            for (int e = 0; e < per_word; ++e) {
                a[(lane / 4 + word % 2 * 8) * call.k + word / 2 * call.k / 2 + lane % 4 * per_word + e] =
                    value_of(call.element, static_cast<uint32_t>(operand.read()), e);
            }
        }
    }
}

__attribute__((target_clones("avx2", "default"), optimize("O3"))) void multiply(float (&sums)[16][256], const float* a, const float* b, int n, int k_size) {
    for (int row = 0; row < 16; ++row) {
        for (int k = 0; k < k_size; ++k) {
            const float factor = a[row * k_size + k];
            for (int column = 0; column < n; ++column) sums[row][column] += factor * b[k * 256 + column];
        }
    }
}

void compute(Warp& warp, WgmmaCall& call) {
    static float a[16 * 32], b[32 * 256];
    at_time(&call.clock);
    if (call.a_in_registers) {
        read_registers(call, a);
    } else {
        read_shared(warp, call, call.a, call.a_is_transposed, warp.number % 4 * 16, 16, a, true);
    }
    read_shared(warp, call, call.b, call.b_is_transposed, 0, call.n, b, false);
    at_time(nullptr);
    if (!call.accumulates) std::memset(call.sums, 0, sizeof call.sums);
    multiply(call.sums, a, b, call.n, call.k);
    for (WgmmaCall* later : warp.wgmmas) {
        if (later == &call || later->d[0][0] != call.d[0][0]) continue;
        std::memcpy(later->sums, call.sums, sizeof call.sums);
        return;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
        for (int part = 0; part < call.n / 2; ++part) {
            *call.d[lane][part] = call.sums[lane / 4 + part / 2 % 2 * 8][part / 4 * 8 + lane % 4 * 2 + part % 2];
        }
    }
}

void act_fence(Warp& warp, Meeting&) { warp.wgmma_fenced = true; }

void act_commit(Warp& warp, Meeting&) {
    bool any = false;
    for (WgmmaCall* call : warp.wgmmas) any = any || !call->committed;
    for (WgmmaCall* call : warp.wgmmas) call->committed = true;
    warp.wgmma_group_ends.push_back(any ? warp.wgmmas.back() : nullptr);
}

// Computes all groups but the last `kept`.
void act_wait(Warp& warp, Meeting& meeting) {
    const Instruction& i = *static_cast<const Instruction*>(meeting.instruction);
    const size_t kept = lane_frame(meeting, 0).word(i.arguments[0]);
    while (warp.wgmma_group_ends.size() > kept) {
        const WgmmaCall* last = warp.wgmma_group_ends.front();
        warp.wgmma_group_ends.pop_front();
        while (last != nullptr && !warp.wgmmas.empty()) {
            WgmmaCall* call = warp.wgmmas.front();
            compute(warp, *call);
            warp.wgmmas.pop_front();
            const bool is_last = call == last;
            delete call;
            if (is_last) break;
        }
    }
    warp.wgmma_fenced = false;
}

// The tensor cores need all four warps of the warpgroup.
void wait_for_others(Warp& warp) {
    Cta& cta = *warp.cta;
    const int first = warp.number / 4 * 4;
    if (static_cast<size_t>(first + 4) > cta.warps.size()) fail("wgmma: the warpgroup has fewer than four warps");
    const size_t issued = warp.wgmma_log.size();
    for (int other = first; other < first + 4; ++other) {
        const auto& log = cta.warps[static_cast<size_t>(other)].wgmma_log;
        while (log.size() < issued) {
            cta.waiting_for_wgmma.push_back(current);
            block("wgmma of another warp of its warpgroup", ~0u);
        }
        for (size_t k = warp.wgmma_compared; k < issued; ++k) {
            if (log[k] != warp.wgmma_log[k]) fail("wgmma: warps %d and %d of a warpgroup issue different ones", warp.number, other);
        }
    }
    warp.wgmma_compared = issued;
}

}  // namespace

void wgmma_issue(Frame& frame, const Instruction& i) { meet(&i, i.opcode.c_str(), ~0u, &frame, act_issue); }
void wgmma_fence(Frame& frame, const Instruction& i) { meet(&i, "wgmma.fence", ~0u, &frame, act_fence); }
void wgmma_commit(Frame& frame, const Instruction& i) { meet(&i, "wgmma.commit_group", ~0u, &frame, act_commit); }
void wgmma_wait(Frame& frame, const Instruction& i) {
    wait_for_others(*current->warp);
    meet(&i, "wgmma.wait_group", ~0u, &frame, act_wait);
}

}  // namespace emulator
