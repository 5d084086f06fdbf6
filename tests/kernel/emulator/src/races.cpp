// Which steps of which threads have happened before others. Barriers, fences and shuffles' warps order them, nothing else does.
#include <algorithm>

#include "state.h"

namespace emulator {

void join(Clock& into, const Clock& from) {
    if (into.size() < from.size()) into.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

void release(Thread& thread, Clock& object) {
    if (!settings.races) return;
    join(object, thread.clock);
    ++thread.clock[static_cast<size_t>(thread.number)];
}

void acquire(Thread& thread, const Clock& object) {
    if (!settings.races) return;
    join(thread.clock, object);
    ++thread.clock[static_cast<size_t>(thread.number)];
}

namespace {
size_t all_threads = 0;
}

void begin_races(int threads) { all_threads = static_cast<size_t>(threads); }
void begin_races_of(Cta& cta) {
    for (Thread& thread : cta.threads) {
        thread.clock.assign(settings.races ? all_threads : 0, 0);
        if (settings.races) thread.clock[static_cast<size_t>(thread.number)] = 1;
    }
}
void note_shared(Thread&, Cta&, uint32_t, uint32_t, bool, bool) {}
void note_global(Thread&, const void*, uint64_t, bool, bool) {}
void check_fenced(Thread&, Cta&, uint32_t, uint32_t, const char*) {}
void fence_proxy(Thread&, bool) {}

}  // namespace emulator
