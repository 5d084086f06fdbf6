// mbarriers and named barriers.
#include <cstdio>

#include "state.h"

namespace emulator {

Mbarrier& mbarrier_at(Cta& cta, uint32_t address, const char* what) {
    const auto found = cta.mbarriers.find(address);
    if (found == cta.mbarriers.end()) fail("%s: there is no initialised mbarrier at shared address %u", what, address);
    return found->second;
}

void init_mbarrier(Cta& cta, uint32_t address, uint32_t count) {
    if (address % 8 != 0) fail("mbarrier.init: misaligned shared address %u", address);
    if (count == 0 || count >= 1u << 20) fail("mbarrier.init: bad count %u", count);
    shared_at(cta, address, 8, "mbarrier.init");
    Mbarrier& barrier = cta.mbarriers[address];
    if (!barrier.waiting.empty()) fail("mbarrier.init: the barrier at %u is in use", address);
    barrier = {};
    barrier.expected = barrier.pending = static_cast<int>(count);
    for (uint32_t i = 0; i < 8; ++i) cta.shadow[address - kSharedBase + i] = kBarrier;
    note_shared(*current, cta, address, 8, true, false);
}

namespace {
void complete_if_done(Mbarrier& barrier) {
    if (barrier.pending != 0 || barrier.bytes != 0) return;
    ++barrier.phase;
    barrier.pending = barrier.expected;
    join(barrier.clock, barrier.next_clock);
    wake(barrier.waiting);
}
}  // namespace

void arrive(Thread& by, Mbarrier& barrier, uint32_t address, int count) {
    if (count > barrier.pending) fail("mbarrier.arrive: the barrier at %u expects no more arrivals (%d per phase)", address, barrier.expected);
    release(by, barrier.next_clock);
    barrier.pending -= count;
    complete_if_done(barrier);
}

void expect_bytes(Mbarrier& barrier, uint32_t address, uint32_t bytes) {
    constexpr int64_t kMostBytes = (1 << 20) - 1;
    barrier.bytes += bytes;
    if (bytes > kMostBytes || barrier.bytes > kMostBytes) fail("mbarrier.expect_tx: more than 2^20 - 1 bytes at %u", address);
}

void complete_bytes(Cta& cta, uint32_t address, int64_t bytes) {
    Mbarrier& barrier = mbarrier_at(cta, address, "complete_tx");
    barrier.bytes -= bytes;
    complete_if_done(barrier);
}

// Waits, or sometimes gives up early as the hardware may.
bool try_wait(Cta& cta, uint32_t address, uint32_t parity) {
    if (parity > 1) fail("mbarrier.try_wait: the parity is %u", parity);
    Mbarrier& barrier = mbarrier_at(cta, address, "mbarrier.try_wait");
    note_shared(*current, cta, address, 8, false, true);
    while ((barrier.phase & 1) == parity) {
        if ((random_bits() & 15) == 0) {
            yield();
            return false;
        }
        barrier.waiting.push_back(current);
        block("mbarrier", address, parity);
    }
    acquire(*current, barrier.clock);
    return true;
}

bool test_wait(Cta& cta, uint32_t address, uint32_t parity) {
    yield();
    Mbarrier& barrier = mbarrier_at(cta, address, "mbarrier.test_wait");
    if ((barrier.phase & 1) == parity) return false;
    acquire(*current, barrier.clock);
    return true;
}

namespace {

struct BarrierFrame {
    uint32_t barrier, threads;
    bool waits, predicate;
    uint32_t generation;
};

// A whole warp arrives at a named barrier.
void act_arrive(Warp& warp, Meeting& meeting) {
    auto& first = *static_cast<BarrierFrame*>(meeting.frames[0]);
    NamedBarrier& barrier = warp.cta->named[first.barrier];
    const int threads = static_cast<int>(first.threads);
    if (barrier.arrived == 0) barrier.threads = threads;
    if (barrier.threads != threads) fail("bar %u: a warp counts %d threads, another one %d", first.barrier, threads, barrier.threads);
    for (int lane = 0; lane < kLanes; ++lane) {
        auto& frame = *static_cast<BarrierFrame*>(meeting.frames[lane]);
        if (frame.barrier != first.barrier || frame.threads != first.threads) fail("bar: lanes of one warp name different barriers");
        frame.generation = barrier.generation;
        barrier.all = barrier.all && frame.predicate;
        barrier.any = barrier.any || frame.predicate;
        release(warp.threads[lane], barrier.next_clock);
    }
    barrier.arrived += kLanes;
    if (barrier.arrived > threads) fail("bar %u: more than %d threads arrive", first.barrier, threads);
    if (barrier.arrived < threads) return;
    ++barrier.generation;
    barrier.result_all = barrier.all;
    barrier.result_any = barrier.any;
    barrier.all = true;
    barrier.any = false;
    barrier.arrived = 0;
    barrier.clock = barrier.next_clock;
    wake(barrier.waiting);
}

}  // namespace

// Returns bit 0: whether all predicates held, bit 1: whether any did.
int named_barrier(const void* site, const char* name, uint32_t number, uint32_t threads, bool waits, bool predicate) {
    if (number > 15) fail("%s: there is no barrier %u", name, number);
    if (threads == 0 || threads % kLanes != 0) fail("%s: %u is not a multiple of 32 threads", name, threads);
    if (threads > current->cta->threads.size()) fail("%s: the CTA has fewer than %u threads", name, threads);
    BarrierFrame frame{number, threads, waits, predicate, 0};
    meet(site, name, ~0u, &frame, act_arrive);
    if (!waits) return 0;
    NamedBarrier& barrier = current->cta->named[number];
    while (barrier.generation == frame.generation) {
        barrier.waiting.push_back(current);
        block("named barrier", number);
    }
    acquire(*current, barrier.clock);
    return barrier.result_all | barrier.result_any << 1;
}

void sync_threads() {
    static const char site = 0;
    named_barrier(&site, "__syncthreads", 0, static_cast<uint32_t>(current->cta->threads.size()), true, true);
}

std::string describe_wait(const Thread& thread) {
    char text[200];
    Cta& cta = *thread.cta;
    const std::string waits = thread.waits;
    if (waits == "mbarrier") {
        const Mbarrier& barrier = cta.mbarriers[static_cast<uint32_t>(thread.object)];
        std::snprintf(text, sizeof text, "mbarrier %u, parity %u (phase %u, %d of %d arrivals missing, %lld bytes missing)",
                      static_cast<unsigned>(thread.object), thread.parity, barrier.phase, barrier.pending, barrier.expected,
                      static_cast<long long>(barrier.bytes));
    } else if (waits == "named barrier") {
        const NamedBarrier& barrier = cta.named[thread.object];
        std::snprintf(text, sizeof text, "named barrier %u (%d of %d threads arrived)", static_cast<unsigned>(thread.object),
                      barrier.arrived, barrier.threads);
    } else {
        std::snprintf(text, sizeof text, "%s (lanes %08x)", thread.waits, static_cast<unsigned>(thread.object));
    }
    return text;
}

}  // namespace emulator
