// A ragged batch: what the kernel that prepares it needs to know, and how its workspace is divided. Host and device.
#pragma once

#include <cstdint>

#include "flashcore/attention/params.h"
#include "flashcore/core/host_device.h"
#include "flashcore/core/variant.h"

namespace flashcore::attention {

// Rows of sequence b: from cumulative[b] to before cumulative[b + 1], or the first used[b] of them.
struct Lengths {
    const int* cumulative;
    const int* used;  // or null
    int total;        // rows that there are
};

struct Ragged {
    Lengths q;
    Lengths k;
    Span* spans;  // one for each sequence, and one more
    Tickets* tickets;
    int batch;
    int heads;
    int head_dim;  // of the variant, as its tile
    int tile_m;
    bool causal;
};

struct Preparation {
    int threads;
};
using PrepareVariant = Variant<Preparation, Ragged>;

// Where a sequence ends and how long it is, whatever the numbers say: within the rows that there are.
struct Extent {
    int end;
    int length;
};

FLASHCORE_HOST_DEVICE constexpr int within(int value, int least, int most) {
    return value < least ? least : value > most ? most : value;
}

FLASHCORE_HOST_DEVICE constexpr Extent extent_of(const Lengths& lengths, int sequence) {
    const int begin = within(lengths.cumulative[sequence], 0, lengths.total);
    const int given = within(lengths.cumulative[sequence + 1], begin, lengths.total) - begin;
    const int length = lengths.used == nullptr ? given : within(lengths.used[sequence], 0, given);
    return {begin + length, length};
}

// The workspace: the tickets, in the place of a span, and then the spans.
FLASHCORE_HOST_DEVICE constexpr int64_t workspace_bytes(int64_t batch) {
    return (batch + 2) * static_cast<int64_t>(sizeof(Span));
}

}  // namespace flashcore::attention
