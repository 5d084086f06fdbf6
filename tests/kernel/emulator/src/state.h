// What the parts of the emulator share: threads, warps, CTAs, the scheduler, and how a violation ends a launch.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/device.h"

namespace emulator {

constexpr int kLanes = 32;
constexpr uint32_t kSharedBase = 1024;  // the first shared address of a CTA, as on sm_90
constexpr uint32_t kSharedLimit = 227 * 1024;
constexpr uint32_t kArenaBytes = 256 * 1024;
constexpr uint32_t kMapMagic = 0x7E5506A9;  // of an encoded tensor map
constexpr uint8_t kPoison = 0xFF;  // NaN in every type of floating point

using Clock = std::vector<uint32_t>;  // what is known to have happened (races.cpp)

struct Warp;
struct Cta;

struct Thread {
    void* stack_pointer = nullptr;
    char* stack = nullptr;  // its lower end
    Cta* cta = nullptr;
    Warp* warp = nullptr;
    int lane = 0;
    int number = 0;           // in the grid
    const char* waits = nullptr;  // what it waits for, or null
    uint64_t object = 0;          // which barrier
    uint32_t parity = 0;
    Coordinates coordinates;
    Clock clock;
    // Copies of this thread that it has not waited for, by group. The last group of each is not committed.
    std::deque<std::vector<void*>> stores{{}};  // of TMA
    std::deque<std::vector<void*>> copies{{}};  // cp.async
};

// Lanes of a warp that meet at one instruction.
struct Meeting {
    const void* instruction;
    const char* name;
    uint32_t mask;
    uint32_t arrived;
    void* frames[kLanes];
};

struct WgmmaCall;

struct Warp {
    Cta* cta = nullptr;
    int number = 0;  // in the CTA
    uint32_t ready = 0;
    uint32_t done = 0;
    int place = -1;  // in the list of warps that can run
    Thread* threads = nullptr;
    std::vector<Meeting> meetings;
    std::deque<WgmmaCall*> wgmmas;     // issued, not waited for
    std::deque<WgmmaCall*> wgmma_group_ends;  // the last of each committed group
    std::vector<uint64_t> wgmma_log;   // of all issued, to compare the warps of a warpgroup
    size_t wgmma_compared = 0;         // how many of them
    bool wgmma_fenced = false;
    int registers = 0;  // after setmaxnreg
    uint32_t live() const { return ~done; }
};

struct Mbarrier {
    int expected = 0;
    int pending = 0;
    int64_t bytes = 0;
    uint32_t phase = 0;
    std::vector<Thread*> waiting;
    Clock clock, next_clock;  // of the completed phases, and of the arrivals in this one
};

struct NamedBarrier {
    int threads = 0;  // of the present use, or 0
    int arrived = 0;
    uint32_t generation = 0;
    bool all = true;
    bool any = false;
    bool result_all = false, result_any = false;
    std::vector<Thread*> waiting;
    Clock clock, next_clock;
};

struct Cta {
    int number = 0;
    char* arena = nullptr;  // shared memory. Its address kSharedBase is that of the first dynamic byte
    uint32_t shared_bytes = 0;  // dynamic and static
    std::vector<uint8_t> shadow;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::unordered_map<uint32_t, Mbarrier> mbarriers;
    NamedBarrier named[16];
    std::unordered_map<const void*, uint32_t> statics;
    std::vector<Thread*> waiting_for_wgmma, waiting_for_registers;
    int live_threads = 0;
    int in_flight = 0;  // asynchronous operations
};

// An operation of TMA that will happen at some time.
struct AsyncOperation {
    Cta* cta;
    void (*run)(void* details);
    void* details;
};

struct Settings {
    uint64_t seed = 1;
    int multiprocessors = 2;
    bool late = true;    // asynchronous copies land when nothing else can happen, otherwise at a random time
    bool races = true;
    bool independent_lanes = false;  // another warp may run while a lane of this one is behind the others
    bool replays = false;  // loads of unwritten shared memory are allowed if they have no effect (replay.cpp)
};

extern Settings settings;
extern Thread* current;

uint64_t random_bits();
void block(const char* waits, uint64_t object = 0, uint32_t parity = 0);  // until someone calls make_ready
void make_ready(Thread& thread);
void wake(std::vector<Thread*>& waiting);
void yield();
void maybe_yield();
void add_async(const AsyncOperation& operation);
void finish_async(void* details);  // now, if it has not happened
[[noreturn]] __attribute__((format(printf, 1, 2))) void fail(const char* format, ...);
std::string describe_thread(const Thread& thread);

void meet(const void* instruction, const char* name, uint32_t mask, void* frame, void (*act)(Warp&, Meeting&));

// Shared memory (memory.cpp). Offsets are shared addresses.
enum Shadow : uint8_t { kDefined = 1, kInFlight = 2, kBarrier = 4 };
char* shared_at(Cta& cta, uint32_t address, uint32_t bytes, const char* what);
void check_shared_read(Cta& cta, uint32_t address, uint32_t bytes, const char* what, bool must_be_defined);
void check_shared_write(Cta& cta, uint32_t address, uint32_t bytes, const char* what);
void begin_shared(Cta& cta, uint32_t bytes);
void check_global(const void* address, uint64_t bytes, bool write, const char* what);
bool is_defined_global(const void* address, uint64_t bytes);
std::pair<const void*, uint64_t> allocation_of(const void* address);
void mark_global(const void* address, uint64_t bytes);
std::vector<uint8_t> global_bytes();  // of all allocations, and which of them have been written
void set_global_bytes(const std::vector<uint8_t>& bytes);

// Effects of unwritten shared memory (replay.cpp).
void fill_unwritten(char* memory, uint32_t bytes);
void observe(uint64_t value);
void note_unwritten_load(uint32_t address);

// Barriers (barrier.cpp).
Mbarrier& mbarrier_at(Cta& cta, uint32_t address, const char* what);
void complete_bytes(Cta& cta, uint32_t address, int64_t bytes);
void arrive(Thread& by, Mbarrier& barrier, uint32_t address, int count);

// Order between threads (races.cpp).
void join(Clock& into, const Clock& from);
void release(Thread& thread, Clock& object);
void acquire(Thread& thread, const Clock& object);
void begin_races(int threads);
void begin_races_of(Cta& cta);
void note_shared(Thread& thread, Cta& cta, uint32_t address, uint32_t bytes, bool write, bool async);
void note_global(Thread& thread, const void* address, uint64_t bytes, bool write, bool async);
void check_fenced(Thread& thread, Cta& cta, uint32_t address, uint32_t bytes, const char* what);
void forget_atomics();
void fence_proxy(Thread& thread, bool shared, bool global);
void fence_order(Thread& thread);
void atomic_order(Thread& thread, Clock& location);
void advance_lane(Thread& thread);
void at_time(const Clock* clock);

// The end of a CTA: nothing may be in flight.
std::string check_end(const Cta& cta);
std::string describe_wait(const Thread& thread);

}  // namespace emulator
