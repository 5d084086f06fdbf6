// Which steps have happened before which others. Only barriers, fences and atomics order the steps of different threads.
//
// A clock has five numbers for every thread of the grid: its last step that has happened before, the last one that a
// __threadfence covers, the last one seen through an atomic, which the next __threadfence makes effective, and the last ones that
// a fence.proxy.async covers, for shared memory and for global memory.
#include <algorithm>

#include "state.h"

namespace emulator {

namespace {

enum Part { kHappened, kFenced, kSeen, kProxyShared, kProxyGlobal, kParts };

size_t all_threads = 0;
std::vector<uint32_t> last_steps;  // of the threads that had the same numbers before

uint32_t& part_of(Clock& clock, Part part, int thread) { return clock[part * all_threads + static_cast<size_t>(thread)]; }
uint32_t part_of(const Clock& clock, Part part, int thread) { return clock[part * all_threads + static_cast<size_t>(thread)]; }

struct Step {
    int thread;
    uint32_t number;
    uint8_t bytes;  // a bit for each
    bool is_async;
};

// Four bytes of memory, and the last steps that touched them.
struct Cell {
    std::vector<Step> writers, readers;
};

using Cells = std::vector<Cell>;

struct Access {
    const Thread& thread;
    const Clock& clock;
    bool write, async;
    const char* memory;
    uint64_t address;
};

bool happened_before(const Step& step, const Clock& clock) { return step.number <= part_of(clock, kHappened, step.thread); }

std::string name_of(int number, const Thread& other) {
    const int threads = static_cast<int>(other.cta->threads.size());
    const int own_slot = other.number / threads;
    const int slot = number / threads;
    const std::string cta = slot == own_slot ? "the same CTA" : "another CTA";
    return cta + ", warp " + std::to_string(number % threads / kLanes) + " lane " + std::to_string(number % kLanes);
}

[[noreturn]] void report(const Access& access, const Step& step, bool step_writes) {
    fail("race: %s %s %s address %llu, which %s %s without an order between them", describe_thread(access.thread).c_str(),
         access.write ? "writes" : "reads", access.memory, static_cast<unsigned long long>(access.address),
         name_of(step.thread, access.thread).c_str(), step_writes ? "writes" : "reads");
}

void add_step(std::vector<Step>& steps, const Access& access, uint8_t bytes, size_t limit) {
    const Step own{access.thread.number, part_of(access.thread.clock, kHappened, access.thread.number), bytes, access.async};
    const auto is_old = [&](const Step& step) { return (step.bytes & ~bytes) == 0 && happened_before(step, access.clock); };
    steps.erase(std::remove_if(steps.begin(), steps.end(), is_old), steps.end());
    if (steps.size() >= limit) steps.erase(steps.begin());
    steps.push_back(own);
}

void note_cell(Cell& cell, const Access& access, uint8_t bytes, bool is_global) {
    bool any_writer = false, ordered = false;
    for (const Step& step : cell.writers) {
        if ((step.bytes & bytes) == 0) continue;
        any_writer = true;
        ordered = ordered || happened_before(step, access.clock);
        if (!is_global && !happened_before(step, access.clock)) report(access, step, true);
    }
    // Several CTAs may write the same values to the same place. A reader must be behind one of them.
    if (is_global && !access.write && any_writer && !ordered) report(access, cell.writers.back(), true);
    if (access.write) {
        for (const Step& step : cell.readers) {
            if ((step.bytes & bytes) != 0 && !happened_before(step, access.clock) && !is_global) report(access, step, false);
        }
        cell.readers.clear();
        add_step(cell.writers, access, bytes, 8);
    } else {
        add_step(cell.readers, access, bytes, 64);
    }
}

template <class Function>
void for_each_cell(Cells& cells, uint64_t offset, uint64_t bytes, Function function) {
    for (uint64_t at = offset; at < offset + bytes;) {
        const uint64_t end = std::min(at / 4 * 4 + 4, offset + bytes);
        const auto mask = static_cast<uint8_t>((1u << (end - at / 4 * 4)) - (1u << at % 4));
        function(cells[at / 4], mask);
        at = end;
    }
}

std::unordered_map<const Cta*, Cells> shared_cells;
std::unordered_map<const void*, Cells> global_cells;  // by the base of an allocation
const Clock* clock_of_access = nullptr;

const Clock& clock_of(const Thread& thread) { return clock_of_access != nullptr ? *clock_of_access : thread.clock; }

}  // namespace

void begin_races(int threads) {
    all_threads = static_cast<size_t>(threads);
    last_steps.assign(all_threads, 0);
    global_cells.clear();
    clock_of_access = nullptr;
    forget_atomics();
}

void begin_races_of(Cta& cta) {
    if (!settings.races) return;
    Cells& cells = shared_cells[&cta];
    cells.assign(kArenaBytes / 4, Cell{});
    for (Thread& thread : cta.threads) {
        thread.clock.assign(kParts * all_threads, 0);
        part_of(thread.clock, kHappened, thread.number) = last_steps[static_cast<size_t>(thread.number)] += 1;
    }
}

namespace {

__attribute__((target_clones("avx2", "default"), optimize("O3"))) void take_later(uint32_t* into, const uint32_t* from, size_t count) {
    for (size_t i = 0; i < count; ++i) into[i] = into[i] < from[i] ? from[i] : into[i];
}

void advance(Thread& thread) { last_steps[static_cast<size_t>(thread.number)] = ++part_of(thread.clock, kHappened, thread.number); }
}  // namespace

void join(Clock& into, const Clock& from) {
    if (into.size() < from.size()) into.resize(from.size());
    take_later(into.data(), from.data(), from.size());
}

void release(Thread& thread, Clock& object) {
    if (!settings.races) return;
    join(object, thread.clock);
    advance(thread);
}

void acquire(Thread& thread, const Clock& object) {
    if (!settings.races) return;
    join(thread.clock, object);
}

void advance_lane(Thread& thread) {
    if (settings.races) advance(thread);
}

void atomic_order(Thread& thread, Clock& location) {
    if (!settings.races) return;
    location.resize(kParts * all_threads);
    for (int i = 0; i < static_cast<int>(all_threads); ++i) {
        part_of(thread.clock, kSeen, i) = std::max(part_of(thread.clock, kSeen, i), part_of(location, kHappened, i));
        const uint32_t published = part_of(thread.clock, kFenced, i);
        part_of(location, kHappened, i) = std::max(part_of(location, kHappened, i), published);
        part_of(location, kFenced, i) = std::max(part_of(location, kFenced, i), published);
    }
    advance(thread);
}

void fence_order(Thread& thread) {
    if (!settings.races) return;
    for (int i = 0; i < static_cast<int>(all_threads); ++i) {
        uint32_t& happened = part_of(thread.clock, kHappened, i);
        happened = std::max(happened, part_of(thread.clock, kSeen, i));
        part_of(thread.clock, kFenced, i) = happened;
    }
    advance(thread);
}

void fence_proxy(Thread& thread, bool shared, bool global) {
    if (!settings.races) return;
    const auto happened = thread.clock.begin();
    const auto count = static_cast<long>(all_threads);
    if (shared) std::copy(happened, happened + count, happened + kProxyShared * count);
    if (global) std::copy(happened, happened + count, happened + kProxyGlobal * count);
    advance(thread);
}

// Until the next call, accesses must be in order with what had happened at this time: when an asynchronous operation was issued.
void at_time(const Clock* clock) { clock_of_access = clock; }

void note_shared(Thread& thread, Cta& cta, uint32_t address, uint32_t bytes, bool write, bool async) {
    if (!settings.races) return;
    const Access access{thread, clock_of(thread), write, async, "shared", address};
    for_each_cell(shared_cells[&cta], address - kSharedBase, bytes, [&](Cell& cell, uint8_t mask) { note_cell(cell, access, mask, false); });
}

void note_global(Thread& thread, const void* address, uint64_t bytes, bool write, bool async) {
    if (!settings.races) return;
    const auto [base, size] = allocation_of(address);
    const auto found = global_cells.find(base);
    if (found == global_cells.end() && !write) return;  // nobody has written there in this launch
    Cells& cells = found != global_cells.end() ? found->second : global_cells[base];
    if (cells.empty()) cells.resize(size / 4 + 1);
    const auto offset = static_cast<uint64_t>(static_cast<const char*>(address) - static_cast<const char*>(base));
    const Access access{thread, clock_of(thread), write, async, "global", offset};
    for_each_cell(cells, offset, bytes, [&](Cell& cell, uint8_t mask) {
        note_cell(cell, access, mask, true);
        if (write || !async) return;
        bool fenced = cell.writers.empty();
        for (const Step& step : cell.writers) fenced = fenced || step.is_async || step.number <= part_of(access.clock, kProxyGlobal, step.thread);
        if (!fenced) fail("TMA load: no fence.proxy.async between a store to global memory and this load (%s)", describe_thread(thread).c_str());
    });
}

// The asynchronous proxy reads shared memory: ordinary stores need a fence first.
void check_fenced(Thread& thread, Cta& cta, uint32_t address, uint32_t bytes, const char* what) {
    if (!settings.races) return;
    for_each_cell(shared_cells[&cta], address - kSharedBase, bytes, [&](Cell& cell, uint8_t mask) {
        for (const Step& step : cell.writers) {
            if ((step.bytes & mask) == 0 || step.is_async || step.number <= part_of(clock_of(thread), kProxyShared, step.thread)) continue;
            fail("%s: no fence.proxy.async after a store to shared address %u by warp %d lane %d", what, address,
                 step.thread % static_cast<int>(cta.threads.size()) / kLanes, step.thread % kLanes);
        }
    });
}

}  // namespace emulator
