// Threads are fibers. One runs until it must wait. Then another one is chosen, at random but for the lanes of its own warp.
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "fibers.h"
#include "state.h"

namespace emulator {

Settings settings;
Thread* current = nullptr;

namespace {

std::vector<Warp*> ready_warps;
std::vector<AsyncOperation> operations;
uint64_t random_state = 1;
std::string error;
void* main_stack = nullptr;

void remove_ready(Warp& warp) {
    ready_warps[warp.place] = ready_warps.back();
    ready_warps[warp.place]->place = warp.place;
    ready_warps.pop_back();
    warp.place = -1;
}

Thread& take_lane(Warp& warp, uint32_t after) {
    const uint32_t later = warp.ready & ~((2u << after) - 1);
    const int lane = __builtin_ctz(later != 0 ? later : warp.ready);
    warp.ready &= ~(1u << lane);
    if (warp.ready == 0) remove_ready(warp);
    return warp.threads[lane];
}

void run_async(size_t index) {
    AsyncOperation operation = operations[index];
    operations.erase(operations.begin() + static_cast<long>(index));
    --operation.cta->in_flight;
    operation.run(operation.details);
}

// Null if no thread will ever run.
Thread* pick(Warp* warp, int lane) {
    const bool stays = !settings.independent_lanes || (random_bits() & 63) != 0;
    if (warp != nullptr && warp->ready != 0 && stays) return &take_lane(*warp, static_cast<uint32_t>(lane));
    if (!settings.late && !operations.empty() && (random_bits() & 7) == 0) run_async(random_bits() % operations.size());
    while (ready_warps.empty()) {
        if (operations.empty()) return nullptr;
        run_async(random_bits() % operations.size());
    }
    Warp& next = *ready_warps[random_bits() % ready_warps.size()];
    return &take_lane(next, static_cast<uint32_t>(random_bits() % kLanes));
}

std::string list_waiting(const std::deque<Cta>& ctas) {
    std::string text;
    for (const Cta& cta : ctas) {
        std::string last;
        for (const Thread& thread : cta.threads) {
            if (thread.waits == nullptr) continue;
            const std::string wait = describe_wait(thread);
            if (wait == last && thread.lane != 0) continue;
            text += "\n  " + describe_thread(thread) + " waits for " + (last = wait);
        }
    }
    return text;
}

void end_thread(Thread& thread);

}  // namespace

std::deque<Cta> resident;

uint64_t random_bits() {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state >> 11;
}

std::string describe_thread(const Thread& thread) {
    char text[64];
    std::snprintf(text, sizeof text, "CTA %d warp %d lane %d", thread.cta->number, thread.warp->number, thread.lane);
    return text;
}

void fail(const char* format, ...) {
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    error = current == nullptr ? text : describe_thread(*current) + ": " + text;
    if (main_stack == nullptr) {
        std::fprintf(stderr, "emulator, outside of a launch: %s\n", text);
        std::abort();
    }
    void* unused;
    emulator_switch(&unused, main_stack);
    __builtin_unreachable();
}

void make_ready(Thread& thread) {
    thread.waits = nullptr;
    Warp& warp = *thread.warp;
    if (warp.ready == 0) {
        warp.place = static_cast<int>(ready_warps.size());
        ready_warps.push_back(&warp);
    }
    warp.ready |= 1u << thread.lane;
}

void wake(std::vector<Thread*>& waiting) {
    for (Thread* thread : waiting) make_ready(*thread);
    waiting.clear();
}

namespace {
void switch_from(Thread& self, Warp* preferred) {
    Thread* next = pick(preferred, self.lane);
    if (next == &self) return;
    if (next == nullptr) {
        const std::string waiting = list_waiting(resident);
        current = nullptr;
        fail("deadlock: no thread can run.%s", waiting.c_str());
    }
    current = next;
    emulator_switch(&self.stack_pointer, next->stack_pointer);
}
}  // namespace

void block(const char* waits, uint64_t object, uint32_t parity) {
    Thread& self = *current;
    self.waits = waits;
    self.object = object;
    self.parity = parity;
    switch_from(self, self.warp);
    current = &self;
}

void yield() {
    Thread& self = *current;
    make_ready(self);
    const bool others = (self.warp->ready & ~(1u << self.lane)) != 0;
    switch_from(self, others || settings.independent_lanes ? self.warp : nullptr);
    current = &self;
}

void maybe_yield() {
    if ((random_bits() & 15) == 0) yield();
}

void add_async(const AsyncOperation& operation) {
    ++operation.cta->in_flight;
    operations.push_back(operation);
}

void finish_async(void* details) {
    for (size_t i = 0; i < operations.size(); ++i) {
        if (operations[i].details == details) return run_async(i);
    }
}

const Coordinates& coordinates() { return current->coordinates; }

namespace {

void end_thread(Thread& thread) {
    Warp& warp = *thread.warp;
    warp.done |= 1u << thread.lane;
    if (thread.stores.size() > 1 || !thread.stores[0].empty()) fail("ends before its TMA stores have read shared memory");
    if (thread.copies.size() > 1 || !thread.copies[0].empty()) fail("ends with copies by cp.async in flight");
    if (--thread.cta->live_threads == 0) emulator_switch(&thread.stack_pointer, main_stack);  // the CTA is at its end
    switch_from(thread, thread.warp);
    __builtin_unreachable();
}

const Launch* launched = nullptr;

void start_thread() {
    Thread& self = *current;
    launched->enter(*launched);
    end_thread(self);
}

void begin_cta(Cta& cta, int number, const Launch& launch, int slot) {
    cta.number = number;
    begin_shared(cta, static_cast<uint32_t>(launch.shared_bytes));
    cta.mbarriers.clear();
    cta.statics.clear();
    for (NamedBarrier& barrier : cta.named) barrier = {};
    cta.warps.assign((launch.threads + kLanes - 1) / kLanes, Warp{});
    cta.threads.assign(launch.threads, Thread{});
    cta.live_threads = static_cast<int>(launch.threads);
    cta.in_flight = 0;  // a launch that failed may have left some, and threads that wait
    cta.waiting_for_wgmma.clear();
    cta.waiting_for_registers.clear();
    for (size_t i = 0; i < cta.warps.size(); ++i) {
        cta.warps[i].cta = &cta;
        cta.warps[i].number = static_cast<int>(i);
        cta.warps[i].threads = &cta.threads[i * kLanes];
    }
    for (size_t i = 0; i < cta.threads.size(); ++i) {
        Thread& thread = cta.threads[i];
        thread.cta = &cta;
        thread.warp = &cta.warps[i / kLanes];
        thread.lane = static_cast<int>(i % kLanes);
        thread.number = static_cast<int>(static_cast<size_t>(slot) * launch.threads + i);
        thread.stack = stack_of(static_cast<size_t>(thread.number));
        thread.stack_pointer = prepare_stack(thread.stack, start_thread);
        thread.coordinates = {{static_cast<unsigned>(i), 0, 0},
                              {static_cast<unsigned>(number), 0, 0},
                              {launch.threads, 1, 1},
                              {launch.ctas, 1, 1}};
        make_ready(thread);
    }
    begin_races_of(cta);
}

void run_resident() {
    Thread* next = pick(nullptr, 0);
    current = next;
    if (next == nullptr) {
        error = "deadlock: no thread can run." + list_waiting(resident);
        return;
    }
    emulator_switch(&main_stack, next->stack_pointer);
    main_stack = nullptr;
}

}  // namespace

// Runs all CTAs of a grid, as many at a time as there are multiprocessors. Returns a violation, or an empty string.
std::string run_grid(const Launch& launch) {
    error.clear();
    ready_warps.clear();
    operations.clear();
    random_state = settings.seed * 0x9E3779B97F4A7C15u | 1;
    launched = &launch;
    const int slots = std::min(static_cast<int>(launch.ctas), settings.multiprocessors);
    while (static_cast<int>(resident.size()) < slots) resident.emplace_back();
    while (static_cast<int>(resident.size()) > slots) resident.pop_back();
    begin_races(slots * static_cast<int>(launch.threads));
    int started = 0, finished = 0;
    for (; started < slots; ++started) begin_cta(resident[static_cast<size_t>(started)], started, launch, started);
    while (finished < static_cast<int>(launch.ctas) && error.empty()) {
        run_resident();
        if (!error.empty()) break;
        Thread* const last = current;
        error = check_end(*last->cta);
        ++finished;
        if (started < static_cast<int>(launch.ctas)) {
            const int slot = last->cta->threads[0].number / static_cast<int>(launch.threads);
            begin_cta(*last->cta, started++, launch, slot);
        }
    }
    current = nullptr;
    main_stack = nullptr;
    return error;
}

}  // namespace emulator
