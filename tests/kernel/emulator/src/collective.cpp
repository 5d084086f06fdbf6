// Instructions that the lanes of a warp execute together, and atomics.
#include <algorithm>

#include "state.h"

namespace emulator {

// Each lane waits until all lanes of the mask are there. The last one acts for all.
void meet(const void* instruction, const char* name, uint32_t mask, void* frame, void (*act)(Warp&, Meeting&)) {
    Thread& self = *current;
    Warp& warp = *self.warp;
    if ((mask >> self.lane & 1) == 0) fail("%s: the lane is not in its own mask %08x", name, mask);
    Meeting* meeting = nullptr;
    for (Meeting& candidate : warp.meetings) {
        if ((candidate.mask & mask) == 0) continue;
        if (candidate.mask == mask && candidate.instruction == instruction) {
            meeting = &candidate;
            continue;
        }
        fail("%s: lanes of one warp are at different instructions, this one and %s (masks %08x, %08x)", name, candidate.name,
             mask, candidate.mask);
    }
    if (meeting == nullptr) {
        warp.meetings.push_back({instruction, name, mask, 0, {}});
        meeting = &warp.meetings.back();
    }
    meeting->arrived |= 1u << self.lane;
    meeting->frames[self.lane] = frame;
    if (meeting->arrived != mask) return block(name, mask);
    Meeting complete = *meeting;
    warp.meetings.erase(warp.meetings.begin() + (meeting - warp.meetings.data()));
    act(warp, complete);
    for (int lane = 0; lane < kLanes; ++lane) {
        if ((mask >> lane & 1) != 0 && lane != self.lane) make_ready(warp.threads[lane]);
    }
}

namespace {

struct ExchangeFrame {
    Exchange kind;
    uint64_t value;
    int argument;
    uint64_t result;
};

ExchangeFrame& frame_of(Meeting& meeting, int lane) { return *static_cast<ExchangeFrame*>(meeting.frames[lane]); }

template <class Function>
void for_each_lane(const Meeting& meeting, Function function) {
    for (int lane = 0; lane < kLanes; ++lane) {
        if ((meeting.mask >> lane & 1) != 0) function(lane);
    }
}

int source_lane(const ExchangeFrame& frame, int lane) {
    switch (frame.kind) {
        case Exchange::kIndex: return frame.argument & (kLanes - 1);
        case Exchange::kXor: return lane ^ frame.argument;
        case Exchange::kUp: return lane - frame.argument < 0 ? lane : lane - frame.argument;
        default: return lane + frame.argument >= kLanes ? lane : lane + frame.argument;
    }
}

void act_shuffle(Warp&, Meeting& meeting) {
    for_each_lane(meeting, [&](int lane) {
        ExchangeFrame& frame = frame_of(meeting, lane);
        const int source = source_lane(frame, lane);
        if (source < 0 || source >= kLanes || (meeting.mask >> source & 1) == 0) fail("shuffle: lane %d reads lane %d, which takes no part", lane, source);
        frame.result = frame_of(meeting, source).value;
    });
}

void act_vote(Warp&, Meeting& meeting) {
    uint32_t ballot = 0;
    for_each_lane(meeting, [&](int lane) { ballot |= static_cast<uint32_t>(frame_of(meeting, lane).value != 0) << lane; });
    for_each_lane(meeting, [&](int lane) {
        ExchangeFrame& frame = frame_of(meeting, lane);
        frame.result = frame.kind == Exchange::kAll ? ballot == meeting.mask : frame.kind == Exchange::kAny ? ballot != 0 : ballot;
    });
}

void act_sync(Warp& warp, Meeting& meeting) {
    if (!settings.races) return;
    Clock all = current->clock;
    for_each_lane(meeting, [&](int lane) { join(all, warp.threads[lane].clock); });
    for_each_lane(meeting, [&](int lane) {
        acquire(warp.threads[lane], all);
        advance_lane(warp.threads[lane]);
    });
}

constexpr const char* kNames[] = {"__shfl_sync", "__shfl_xor_sync", "__shfl_up_sync", "__shfl_down_sync",
                                  "__all_sync",  "__any_sync",      "__ballot_sync",  "__syncwarp"};

}  // namespace

uint64_t exchange(Exchange kind, unsigned mask, uint64_t value, int argument) {
    ExchangeFrame frame{kind, value, argument, 0};
    const int index = static_cast<int>(kind);
    const bool is_vote = kind == Exchange::kAll || kind == Exchange::kAny || kind == Exchange::kBallot;
    observe(static_cast<uint64_t>(mask) << 32 | static_cast<uint64_t>(index));
    observe(static_cast<uint64_t>(argument));
    if (is_vote) observe(value);  // a shuffle only moves it
    const auto act = kind == Exchange::kSync ? act_sync : kind >= Exchange::kAll ? act_vote : act_shuffle;
    meet(&kNames[index], kNames[index], mask, &frame, act);
    return frame.result;
}

namespace {

uint32_t combine(Atomic kind, uint32_t before, uint32_t value, uint32_t compared) {
    switch (kind) {
        case Atomic::kAdd: return before + value;
        case Atomic::kAddFloat:
            return __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, before) + __builtin_bit_cast(float, value));
        case Atomic::kMaxSigned: return static_cast<uint32_t>(std::max(static_cast<int>(before), static_cast<int>(value)));
        case Atomic::kMax: return std::max(before, value);
        case Atomic::kMin: return std::min(before, value);
        case Atomic::kOr: return before | value;
        case Atomic::kAnd: return before & value;
        case Atomic::kExchange: return value;
        case Atomic::kIncrement: return before >= value ? 0 : before + 1;
        case Atomic::kCas: return before == compared ? value : before;
    }
    return before;
}

std::unordered_map<const void*, Clock> atomic_clocks;

}  // namespace

void forget_atomics() { atomic_clocks.clear(); }

// An atomic is relaxed: it publishes what its thread had done before its last fence. The fence after it takes what others published.
uint32_t atomic(Atomic kind, void* address, uint32_t value, uint32_t compared) {
    observe(reinterpret_cast<uintptr_t>(address));
    observe(static_cast<uint64_t>(value) << 32 | compared);
    maybe_yield();
    Thread& self = *current;
    const char* arena = self.cta->arena;
    if (reinterpret_cast<uintptr_t>(address) % 4 != 0) fail("atomic: misaligned address");
    if (static_cast<char*>(address) >= arena && static_cast<char*>(address) < arena + kArenaBytes) {
        check_shared_read(*self.cta, shared_offset(address), 4, "atomic", true);
    } else {
        check_global(address, 4, false, "atomic");
        if (!is_defined_global(address, 4)) fail("atomic: memory that nobody has written");
    }
    auto* const word = static_cast<uint32_t*>(address);
    const uint32_t before = *word;
    *word = combine(kind, before, value, compared);
    atomic_order(self, atomic_clocks[address]);
    return before;
}

void thread_fence() { fence_order(*current); }

void trap() { fail("__trap"); }

}  // namespace emulator
