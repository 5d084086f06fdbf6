// Loads of shared memory that nobody has written, where a launch may have them. It may if they have no effect: the launch is
// repeated with other contents of that memory, and each thread must do the same. A load whose value is dropped passes, as of the
// members that the last tile of a list does not have. One whose value reaches an address, a branch, an instruction or a result fails.
#include <cstring>

#include "cuda_runtime.h"
#include "state.h"

namespace emulator {

std::string run_grid(const Launch& launch);

namespace {

// NaN and -1, zeros, the smallest number, and numbers that nothing is compared with.
enum class Contents { kPoison, kZeros, kOnes, kRandom };
constexpr const char* kContentsNames[] = {"-1", "0", "1", "random bits"};

Contents contents = Contents::kPoison;
std::string unwritten_load;  // the first one of this launch
// What all threads of the first launch did, in order, and how much of it this launch has repeated.
std::vector<uint32_t> observations;
size_t repeated = 0;

struct Outcome {
    std::string error;
    std::vector<uint8_t> global;
};

Outcome run_with(Contents own, const Launch& launch) {
    contents = own;
    repeated = 0;
    std::string error = run_grid(launch);
    if (error.empty() && repeated != observations.size()) error = "less happens";
    contents = Contents::kPoison;
    return {std::move(error), global_bytes()};
}

}  // namespace

void fill_unwritten(char* memory, uint32_t bytes) {
    std::memset(memory, kPoison, bytes);
    if (contents == Contents::kPoison) return;
    uint32_t random = 1;
    for (uint32_t at = 0; at < bytes; at += 4) {
        random = random * 1664525 + 1013904223;
        const uint32_t word = contents == Contents::kZeros ? 0 : contents == Contents::kOnes ? 1 : random ^ random >> 16;
        std::memcpy(memory + at, &word, 4);
    }
}

// Something that a thread does, and that would differ if a value in its registers did.
void observe(uint64_t value) {
    if (!settings.replays) return;
    const auto thread = static_cast<uint64_t>(current->cta->number) << 32 | static_cast<uint64_t>(current->number);
    const uint64_t mixed = (value * 0x9E3779B97F4A7C15u ^ thread) * 0xD6E8FEB86659FD93u;
    const auto observation = static_cast<uint32_t>(mixed >> 32);
    if (contents == Contents::kPoison) observations.push_back(observation);
    if (repeated == observations.size() || observations[repeated++] != observation) fail("this thread does something else");
}

void note_unwritten_load(uint32_t address) {
    if (!unwritten_load.empty()) return;
    unwritten_load = describe_thread(*current) + ": load: reads shared address " + std::to_string(address) + ", which nobody has written";
}

std::string run_grid_and_replays(const Launch& launch) {
    if (!settings.replays) return run_grid(launch);
    const std::vector<uint8_t> before = global_bytes();
    unwritten_load.clear();
    observations.clear();
    const Outcome first = run_with(Contents::kPoison, launch);
    if (unwritten_load.empty()) return first.error;
    if (!first.error.empty()) return unwritten_load + ". Then " + first.error;
    for (const Contents other : {Contents::kZeros, Contents::kOnes, Contents::kRandom}) {
        set_global_bytes(before);
        const Outcome again = run_with(other, launch);
        const std::string text = unwritten_load + ", and it matters. With " + kContentsNames[static_cast<int>(other)] + " there: ";
        if (!again.error.empty()) return text + again.error;
        if (again.global != first.global) return text + "other results";
    }
    return "";
}

}  // namespace emulator
