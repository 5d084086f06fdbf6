// TMA and cp.async. A copy is noted when it is issued and happens later.
#include <cstring>

#include "cuda.h"
#include "matrix.h"

namespace emulator {

void expect_bytes(Mbarrier& barrier, uint32_t address, uint32_t bytes);

namespace {

uint64_t memory_of(const Frame& frame, const Argument& argument) {
    if (argument.kind != Argument::kMemory) fail("asm: an address must be in brackets");
    return frame.read(argument.parts[0]) + static_cast<uint64_t>(argument.number);
}

struct BoxCopy {
    CUtensorMap map;
    int64_t corner[5];
    uint32_t shared, barrier, bytes;
    Thread* issuer;
    Clock clock;  // of the issuer, then
};

void read_map(const Frame& frame, const Argument& argument, const Instruction& i, BoxCopy& copy) {
    if (argument.kind != Argument::kMemory || argument.parts.size() != 2) fail("TMA: expected [map, {coordinates}]");
    const auto* map = reinterpret_cast<const CUtensorMap*>(frame.read(argument.parts[0]));
    if (map == nullptr || reinterpret_cast<uintptr_t>(map) % 64 != 0 || map->magic != kMapMagic) fail("TMA: %p is not a tensor map", static_cast<const void*>(map));
    copy.map = *map;
    const auto& coordinates = argument.parts[1].parts;
    if (coordinates.size() != map->rank || !i.has((std::to_string(map->rank) + "d").c_str())) fail("TMA: the map has %u dimensions", map->rank);
    copy.bytes = map->element_bytes;
    for (size_t k = 0; k < 5; ++k) {
        copy.corner[k] = k < map->rank ? static_cast<int>(frame.word(coordinates[k])) : 0;
        copy.bytes *= k < map->rank ? map->box[k] : 1;
    }
}

void set_shadow(Cta& cta, uint32_t address, uint32_t bytes, uint8_t shadow) {
    std::memset(cta.shadow.data() + (address - kSharedBase), shadow, bytes);
}

// Calls function(shared address, global address or null, bytes) for each part of at most 16 bytes.
template <class Function>
void for_each_unit(const BoxCopy& copy, Function function) {
    const CUtensorMap& map = copy.map;
    constexpr int kWidths[] = {0, 32, 64, 128};
    const int width = kWidths[map.swizzle];
    const int row_bytes = map.box[0] * static_cast<int>(map.element_bytes);
    if (width != 0 && row_bytes != width) fail("TMA: a box row of %d bytes with a swizzle of %d is not emulated", row_bytes, width);
    uint32_t at = copy.shared;
    int64_t index[5] = {};
    const auto size = [&](int k) { return k < static_cast<int>(map.rank) ? static_cast<int64_t>(map.box[k]) : 1; };
    for (index[4] = 0; index[4] < size(4); ++index[4])
    for (index[3] = 0; index[3] < size(3); ++index[3])
    for (index[2] = 0; index[2] < size(2); ++index[2])
    for (index[1] = 0; index[1] < size(1); ++index[1]) {
        char* row = map.data;
        bool inside = true;
        for (int k = 1; k < static_cast<int>(map.rank); ++k) {
            const int64_t position = copy.corner[k] + index[k];
            inside = inside && position >= 0 && position <= static_cast<int64_t>(map.extent[k]);
            if (inside) row += position * static_cast<int64_t>(map.stride[k - 1]);
        }
        for (int first = 0; first < row_bytes; first += 16, at += 16) {
            for (int byte = 0; byte < 16;) {  // whole elements
                const int64_t element = copy.corner[0] + (first + byte) / static_cast<int>(map.element_bytes);
                const bool exists = inside && element >= 0 && element <= static_cast<int64_t>(map.extent[0]);
                int count = static_cast<int>(map.element_bytes);
                if (byte == 0 && exists && element + 16 / count - 1 <= static_cast<int64_t>(map.extent[0])) count = 16;
                if (byte == 0 && !inside) count = 16;
                function(swizzled(at, width) + static_cast<uint32_t>(byte), exists ? row + element * static_cast<int>(map.element_bytes) : nullptr, count);
                byte += count;
            }
        }
    }
}

void run_load(void* details) {
    auto* copy = static_cast<BoxCopy*>(details);
    Cta& cta = *copy->issuer->cta;
    at_time(&copy->clock);
    for_each_unit(*copy, [&](uint32_t shared, const char* global, int bytes) {
        char* to = shared_at(cta, shared, static_cast<uint32_t>(bytes), "TMA load");
        if (global == nullptr) {
            std::memset(to, 0, static_cast<size_t>(bytes));
            return;
        }
        check_global(global, static_cast<uint64_t>(bytes), false, "TMA load");
        note_global(*copy->issuer, global, static_cast<uint64_t>(bytes), false, true);
        std::memcpy(to, global, static_cast<size_t>(bytes));
    });
    at_time(nullptr);
    set_shadow(cta, copy->shared, copy->bytes, kDefined);
    complete_bytes(cta, copy->barrier, copy->bytes);
    delete copy;
}

void run_store(void* details) {
    auto* copy = static_cast<BoxCopy*>(details);
    Cta& cta = *copy->issuer->cta;
    at_time(&copy->clock);
    for_each_unit(*copy, [&](uint32_t shared, char* global, int bytes) {
        if (global == nullptr) return;
        const auto count = static_cast<uint32_t>(bytes);
        check_shared_read(cta, shared, count, "TMA store", true);
        note_shared(*copy->issuer, cta, shared, count, false, true);
        check_fenced(*copy->issuer, cta, shared, count, "TMA store");
        check_global(global, count, true, "TMA store");
        note_global(*copy->issuer, global, count, true, true);
        std::memcpy(global, shared_at(cta, shared, count, "TMA store"), count);
        mark_global(global, count);
    });
    at_time(nullptr);
    delete copy;
}

void check_box(const BoxCopy& copy) {
    Cta& cta = *copy.issuer->cta;
    constexpr uint32_t kAlignments[] = {128, 256, 512, 1024};
    const uint32_t alignment = copy.map.swizzle == 0 ? 128 : std::min(kAlignments[copy.map.swizzle], 128u);
    if (copy.shared % alignment != 0) fail("TMA: the shared address %u is not a multiple of %u", copy.shared, alignment);
    shared_at(cta, copy.shared, copy.bytes, "TMA");
}

void mark_in_flight(Cta& cta, Thread& issuer, uint32_t address, uint32_t bytes, const char* what) {
    check_shared_write(cta, address, bytes, what);
    note_shared(issuer, cta, address, bytes, true, true);
    set_shadow(cta, address, bytes, kInFlight);
    std::memset(shared_at(cta, address, bytes, what), kPoison, bytes);
}

// cp.async.bulk.tensor.Nd.shared.global.mbarrier [shared], [map, {coordinates}], [barrier]
void load_box(Frame& frame, const Instruction& i) {
    Thread& self = *current;
    auto* copy = new BoxCopy{};
    copy->issuer = &self;
    copy->shared = static_cast<uint32_t>(memory_of(frame, i.arguments[0]));
    read_map(frame, i.arguments[1], i, *copy);
    copy->barrier = static_cast<uint32_t>(memory_of(frame, i.arguments[2]));
    check_box(*copy);
    Mbarrier& barrier = mbarrier_at(*self.cta, copy->barrier, "TMA load");
    mark_in_flight(*self.cta, self, copy->shared, copy->bytes, "TMA load");
    copy->clock = self.clock;
    release(self, barrier.next_clock);
    add_async({self.cta, run_load, copy});
    maybe_yield();
}

// cp.async.bulk.tensor.Nd.global.shared::cta.bulk_group [map, {coordinates}], [shared]
void store_box(Frame& frame, const Instruction& i) {
    Thread& self = *current;
    auto* copy = new BoxCopy{};
    copy->issuer = &self;
    read_map(frame, i.arguments[0], i, *copy);
    copy->shared = static_cast<uint32_t>(memory_of(frame, i.arguments[1]));
    check_box(*copy);
    copy->clock = self.clock;
    add_async({self.cta, run_store, copy});
    self.stores.back().push_back(copy);
}

void tensor(Frame& frame, const Instruction& i) {
    if (i.has("im2col") || i.has("multicast::cluster")) fail("asm: %s is not emulated", i.opcode.c_str());
    i.words[5] == "global" ? store_box(frame, i) : load_box(frame, i);
}

void commit(std::deque<std::vector<void*>>& groups) { groups.emplace_back(); }

void wait(std::deque<std::vector<void*>>& groups, size_t kept) {
    while (groups.size() - 1 > kept) {
        const std::vector<void*> group = groups.front();
        groups.pop_front();
        for (void* details : group) finish_async(details);
    }
}

void commit_stores(Frame&, const Instruction&) { commit(current->stores); }
void wait_stores(Frame& frame, const Instruction& i) { wait(current->stores, frame.word(i.arguments[0])); }

struct UnitCopy {
    uint32_t shared, bytes, existing;
    const char* global;
    Thread* issuer;
};

void run_unit(void* details) {
    auto* copy = static_cast<UnitCopy*>(details);
    Cta& cta = *copy->issuer->cta;
    char* to = shared_at(cta, copy->shared, copy->bytes, "cp.async");
    std::memset(to, 0, copy->bytes);
    if (copy->existing > 0) {
        check_global(copy->global, copy->existing, false, "cp.async");
        note_global(*copy->issuer, copy->global, copy->existing, false, false);
        std::memcpy(to, copy->global, copy->existing);
    }
    set_shadow(cta, copy->shared, copy->bytes, kDefined);
    delete copy;
}

// cp.async.{ca, cg}.shared.global [shared], [global], bytes{, existing bytes}
void copy_unit(Frame& frame, const Instruction& i) {
    Thread& self = *current;
    const uint32_t bytes = frame.word(i.arguments[2]);
    const uint32_t existing = i.arguments.size() > 3 ? frame.word(i.arguments[3]) : bytes;
    auto* copy = new UnitCopy{static_cast<uint32_t>(memory_of(frame, i.arguments[0])), bytes, existing,
                              reinterpret_cast<const char*>(memory_of(frame, i.arguments[1])), &self};
    if ((bytes != 4 && bytes != 8 && bytes != 16) || existing > bytes || (i.has("cg") && bytes != 16)) fail("cp.async: bad size %u", bytes);
    if (copy->shared % bytes != 0 || reinterpret_cast<uintptr_t>(copy->global) % bytes != 0) fail("cp.async: misaligned address");
    mark_in_flight(*self.cta, self, copy->shared, bytes, "cp.async");
    add_async({self.cta, run_unit, copy});
    self.copies.back().push_back(copy);
}

void commit_copies(Frame&, const Instruction&) { commit(current->copies); }
void wait_copies(Frame& frame, const Instruction& i) { wait(current->copies, frame.word(i.arguments[0])); }
void wait_all_copies(Frame&, const Instruction&) {
    commit(current->copies);
    wait(current->copies, 0);
}

struct CopyArrival {
    std::vector<void*> copies;
    uint32_t barrier;
    Thread* issuer;
};

void run_arrival(void* details) {
    auto* arrival = static_cast<CopyArrival*>(details);
    for (void* copy : arrival->copies) finish_async(copy);
    arrive(*arrival->issuer, mbarrier_at(*arrival->issuer->cta, arrival->barrier, "cp.async.mbarrier.arrive"), arrival->barrier, 1);
    delete arrival;
}

// Arrives when all earlier copies of this thread have happened.
void arrive_after_copies(Frame& frame, const Instruction& i) {
    Thread& self = *current;
    auto* arrival = new CopyArrival{{}, static_cast<uint32_t>(memory_of(frame, i.arguments[0])), &self};
    for (const auto& group : self.copies) arrival->copies.insert(arrival->copies.end(), group.begin(), group.end());
    self.copies = {{}};
    Mbarrier& barrier = mbarrier_at(*self.cta, arrival->barrier, "cp.async.mbarrier.arrive");
    if (!i.has("noinc")) ++barrier.pending;
    add_async({self.cta, run_arrival, arrival});
    maybe_yield();
}

}  // namespace

std::string check_end(const Cta& cta) {
    const std::string name = "CTA " + std::to_string(cta.number) + " ends with ";
    if (cta.in_flight > 0) return name + std::to_string(cta.in_flight) + " copies in flight";
    for (const Warp& warp : cta.warps) {
        if (!warp.wgmmas.empty()) return name + "wgmmas in flight in warp " + std::to_string(warp.number);
    }
    for (int number = 0; number < 16; ++number) {
        const int arrived = cta.named[number].arrived;
        if (arrived > 0) return name + "named barrier " + std::to_string(number) + " half full, " + std::to_string(arrived) + " threads";
    }
    return "";
}

const std::vector<Entry>& copy_entries() {
    static const std::vector<Entry> entries = {
        {"cp.async.bulk.tensor", tensor},
        {"cp.async.bulk.commit_group", commit_stores},
        {"cp.async.bulk.wait_group", wait_stores},
        {"cp.async.ca.shared", copy_unit},
        {"cp.async.cg.shared", copy_unit},
        {"cp.async.ca.shared::cta", copy_unit},
        {"cp.async.cg.shared::cta", copy_unit},
        {"cp.async.commit_group", commit_copies},
        {"cp.async.wait_group", wait_copies},
        {"cp.async.wait_all", wait_all_copies},
        {"cp.async.mbarrier.arrive", arrive_after_copies},
    };
    return entries;
}

}  // namespace emulator
