// Shared and global memory: what exists, what has been written, and the accesses of device code, which the compiler reports
// through the functions of ThreadSanitizer.
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "fibers.h"
#include "state.h"

namespace emulator {

namespace {

constexpr size_t kGuardBytes = 4096;

struct Allocation {
    char* base;
    size_t bytes;
    std::string name;
    std::vector<uint8_t> defined;  // per byte
    std::unique_ptr<char[]> memory;
};

std::map<const char*, Allocation> allocations;  // by their ends
Allocation* last_found = nullptr;

Allocation* find(const void* address, uint64_t bytes) {
    const char* at = static_cast<const char*>(address);
    const auto holds = [&](const Allocation& a) { return at >= a.base && at + bytes <= a.base + a.bytes; };
    if (last_found != nullptr && holds(*last_found)) return last_found;
    const auto next = allocations.upper_bound(at);
    if (next == allocations.end() || !holds(next->second)) return nullptr;
    return last_found = &next->second;
}

struct Range {
    uintptr_t begin, end;
};

// The constants of this library.
bool is_in_library(const void* address, size_t bytes) {
    static const Range range = [] {
        Range found{};
        dl_iterate_phdr(
            [](dl_phdr_info* info, size_t, void* data) {
                auto& result = *static_cast<Range*>(data);
                const auto self = reinterpret_cast<uintptr_t>(&settings);
                Range all{~uintptr_t{0}, 0};
                for (int i = 0; i < info->dlpi_phnum; ++i) {
                    const auto& part = info->dlpi_phdr[i];
                    if (part.p_type != PT_LOAD) continue;
                    all.begin = std::min(all.begin, static_cast<uintptr_t>(info->dlpi_addr + part.p_vaddr));
                    all.end = std::max(all.end, static_cast<uintptr_t>(info->dlpi_addr + part.p_vaddr + part.p_memsz));
                }
                if (self >= all.begin && self < all.end) result = all;
                return 0;
            },
            &found);
        return found;
    }();
    const auto at = reinterpret_cast<uintptr_t>(address);
    return at >= range.begin && at + bytes <= range.end;
}

}  // namespace

void begin_shared(Cta& cta, uint32_t bytes) {
    if (cta.arena == nullptr) {
        void* memory = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cta.arena = static_cast<char*>(memory);
        cta.shadow.resize(kArenaBytes);
    }
    if (bytes > kSharedLimit) fail("the launch asks for %u bytes of shared memory", bytes);
    cta.shared_bytes = bytes;
    fill_unwritten(cta.arena, kArenaBytes);
    std::fill(cta.shadow.begin(), cta.shadow.end(), uint8_t{0});
}

void* dynamic_shared() { return current->cta->arena; }

void* static_shared(const SharedSite& site, uint64_t bytes, uint64_t alignment) {
    Cta& cta = *current->cta;
    const auto [found, is_new] = cta.statics.try_emplace(&site, 0u);
    if (is_new) {
        const auto first = static_cast<uint32_t>((cta.shared_bytes + alignment - 1) / alignment * alignment);
        found->second = first;
        cta.shared_bytes = first + static_cast<uint32_t>(bytes);
        if (cta.shared_bytes > kSharedLimit) fail("more than 227 KiB of shared memory");
    }
    return cta.arena + found->second;
}

uint32_t shared_offset(const void* pointer) {
    const auto offset = static_cast<const char*>(pointer) - current->cta->arena;
    if (offset < 0 || offset > kArenaBytes) fail("__cvta_generic_to_shared: %p is not in shared memory", pointer);
    return static_cast<uint32_t>(offset) + kSharedBase;
}

char* shared_at(Cta& cta, uint32_t address, uint32_t bytes, const char* what) {
    if (address < kSharedBase || address - kSharedBase + uint64_t{bytes} > cta.shared_bytes) {
        fail("%s: shared addresses %u .. %u are outside of the CTA's memory, %u .. %u", what, address, address + bytes - 1,
             kSharedBase, kSharedBase + cta.shared_bytes - 1);
    }
    return cta.arena + (address - kSharedBase);
}

namespace {
const char* name_of(uint8_t shadow) {
    return (shadow & kInFlight) != 0 ? "which an asynchronous copy still writes"
           : (shadow & kBarrier) != 0 ? "which holds an mbarrier"
                                      : "which nobody has written";
}
}  // namespace

void check_shared_read(Cta& cta, uint32_t address, uint32_t bytes, const char* what, bool must_be_defined) {
    shared_at(cta, address, bytes, what);
    const uint8_t* shadow = cta.shadow.data() + (address - kSharedBase);
    for (uint32_t i = 0; i < bytes; ++i) {
        if (shadow[i] == kDefined || (shadow[i] == 0 && !must_be_defined)) continue;
        fail("%s: reads shared address %u, %s", what, address + i, name_of(shadow[i]));
    }
}

void check_shared_write(Cta& cta, uint32_t address, uint32_t bytes, const char* what) {
    shared_at(cta, address, bytes, what);
    uint8_t* shadow = cta.shadow.data() + (address - kSharedBase);
    for (uint32_t i = 0; i < bytes; ++i) {
        if ((shadow[i] & ~kDefined) != 0) fail("%s: writes shared address %u, %s", what, address + i, name_of(shadow[i]));
        shadow[i] = kDefined;
    }
}

void check_global(const void* address, uint64_t bytes, bool write, const char* what) {
    if (find(address, bytes) != nullptr) return;
    std::string near;
    for (const auto& [end, allocation] : allocations) {
        const char* at = static_cast<const char*>(address);
        if (at + kGuardBytes >= allocation.base && at < allocation.base + allocation.bytes + kGuardBytes) {
            near = ", byte " + std::to_string(at - allocation.base) + " of '" + allocation.name + "', which has " +
                   std::to_string(allocation.bytes);
        }
    }
    fail("%s: %s %llu bytes of global memory at %p outside of any allocation%s", what, write ? "writes" : "reads",
         static_cast<unsigned long long>(bytes), address, near.c_str());
}

bool is_defined_global(const void* address, uint64_t bytes) {
    const Allocation* allocation = find(address, bytes);
    const auto first = allocation->defined.begin() + (static_cast<const char*>(address) - allocation->base);
    return std::find(first, first + static_cast<long>(bytes), uint8_t{0}) == first + static_cast<long>(bytes);
}

std::pair<const void*, uint64_t> allocation_of(const void* address) {
    const Allocation* allocation = find(address, 1);
    return {allocation->base, allocation->bytes};
}

void mark_global(const void* address, uint64_t bytes) {
    Allocation* allocation = find(address, bytes);
    std::memset(allocation->defined.data() + (static_cast<const char*>(address) - allocation->base), 1, bytes);
}

std::vector<uint8_t> global_bytes() {
    std::vector<uint8_t> all;
    for (const auto& [end, allocation] : allocations) {
        all.insert(all.end(), allocation.base, allocation.base + allocation.bytes);
        all.insert(all.end(), allocation.defined.begin(), allocation.defined.end());
    }
    return all;
}

void set_global_bytes(const std::vector<uint8_t>& bytes) {
    const uint8_t* from = bytes.data();
    for (auto& [end, allocation] : allocations) {
        std::memcpy(allocation.base, from, allocation.bytes);
        std::memcpy(allocation.defined.data(), from + allocation.bytes, allocation.bytes);
        from += 2 * allocation.bytes;
    }
}

namespace {

void access_shared(Cta& cta, uint32_t address, uint32_t bytes, bool write) {
    if (write) {
        check_shared_write(cta, address, bytes, "store");
    } else {
        check_shared_read(cta, address, bytes, "load", !settings.replays);
        for (uint32_t i = 0; i < bytes; ++i) {
            if (cta.shadow[address - kSharedBase + i] == 0) note_unwritten_load(address + i);
        }
    }
    note_shared(*current, cta, address, bytes, write, false);
}

void access_global(const void* address, uint64_t bytes, bool write) {
    if (!write && find(address, bytes) == nullptr && is_in_library(address, bytes)) return;
    check_global(address, bytes, write, write ? "store" : "load");
    if (write) {
        mark_global(address, bytes);
    } else if (!is_defined_global(address, bytes)) {
        fail("load: reads global memory that nobody has written, byte %lld of '%s'",
             static_cast<long long>(static_cast<const char*>(address) - find(address, 1)->base), find(address, 1)->name.c_str());
    }
    note_global(*current, address, bytes, write, false);
}

}  // namespace

void access(const void* address, uint64_t bytes, bool write, bool aligned) {
    if (current == nullptr) return;
    const auto* at = static_cast<const char*>(address);
    if (static_cast<uintptr_t>(at - current->stack) < kStackBytes) return;
    if (aligned && reinterpret_cast<uintptr_t>(at) % bytes != 0) fail("%s: %p is not a multiple of %d", write ? "store" : "load", address, static_cast<int>(bytes));
    observe(reinterpret_cast<uintptr_t>(at));
    observe(bytes << 1 | static_cast<uint64_t>(write));
    Cta& cta = *current->cta;
    if (static_cast<uintptr_t>(at - cta.arena) < kArenaBytes) {
        return access_shared(cta, static_cast<uint32_t>(at - cta.arena) + kSharedBase, static_cast<uint32_t>(bytes), write);
    }
    access_global(address, bytes, write);
}

}  // namespace emulator

using emulator::allocations;

extern "C" {

// Memory for operands, full of NaN until the host writes it and says so.
void* emulator_allocate(size_t bytes, const char* name) {
    using namespace emulator;
    auto memory = std::make_unique<char[]>(bytes + 2 * kGuardBytes + 1024);
    char* base = memory.get() + kGuardBytes;
    base += 1024 - reinterpret_cast<uintptr_t>(base) % 1024;
    std::memset(memory.get(), kPoison, bytes + 2 * kGuardBytes + 1024);
    allocations.emplace(base + bytes, Allocation{base, bytes, name, std::vector<uint8_t>(bytes), std::move(memory)});
    return base;
}
void emulator_write(void* to, const void* from, size_t bytes) {
    emulator::check_global(to, bytes, true, "emulator_write");
    std::memcpy(to, from, bytes);
    emulator::mark_global(to, bytes);
}
// Forgets what was written: an output that a kernel must write again.
void emulator_forget(void* address, size_t bytes) {
    std::memset(address, emulator::kPoison, bytes);
    auto* allocation = emulator::find(address, bytes);
    std::memset(allocation->defined.data() + (static_cast<char*>(address) - allocation->base), 0, bytes);
}
void emulator_free_all() {
    emulator::last_found = nullptr;
    allocations.clear();
    emulator::free_stacks();  // each has two mappings, and a process may have 65530: those of 20 libraries
}
// The first byte that nobody has written, or -1.
int64_t emulator_first_unwritten(const void* address, size_t bytes) {
    const auto* allocation = emulator::find(address, bytes);
    const auto first = allocation->defined.begin() + (static_cast<const char*>(address) - allocation->base);
    const auto found = std::find(first, first + static_cast<long>(bytes), uint8_t{0});
    return found == first + static_cast<long>(bytes) ? -1 : found - first;
}

#define EMULATOR_HOOKS(BYTES)                                                                               \
    void __tsan_read##BYTES(void* at) { emulator::access(at, BYTES, false, true); }                         \
    void __tsan_write##BYTES(void* at) { emulator::access(at, BYTES, true, true); }                         \
    void __tsan_unaligned_read##BYTES(void* at) { emulator::access(at, BYTES, false, false); }              \
    void __tsan_unaligned_write##BYTES(void* at) { emulator::access(at, BYTES, true, false); }
EMULATOR_HOOKS(1)
EMULATOR_HOOKS(2)
EMULATOR_HOOKS(4)
EMULATOR_HOOKS(8)
EMULATOR_HOOKS(16)
void __tsan_read_range(void* at, unsigned long bytes) { emulator::access(at, bytes, false, false); }
void __tsan_write_range(void* at, unsigned long bytes) { emulator::access(at, bytes, true, false); }
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
uint64_t __tsan_atomic64_load(const volatile uint64_t* at, int) { return *at; }
uint64_t __tsan_atomic64_fetch_or(volatile uint64_t* at, uint64_t value, int) {
    const uint64_t before = *at;
    *at = before | value;
    return before;
}
}
