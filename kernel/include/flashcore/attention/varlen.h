// A ragged batch: what the kernel that prepares it needs to know, and how its workspace is divided. Host and device.
#pragma once

#include <cstdint>

#include "flashcore/attention/params.h"
#include "flashcore/core/host_device.h"
#include "flashcore/core/variant.h"

namespace flashcore::attention {

// Rows of sequence b: from cumulative[b] to before cumulative[b + 1], or the first used[b] of them.
struct SequenceLengths {
    const int* cu_seqlens;
    const int* seqused;  // or null
    int total;           // rows that there are
};

struct VarlenBatch {
    SequenceLengths q;
    SequenceLengths k;
    SequenceInfo* sequence_infos;  // one for each sequence, and one more
    TileCounter* tile_counter;
    int batch;
    int heads;
    int head_dim;  // of the variant, as its tile
    int tile_m;
    bool causal;
};

struct PrepareConfig {
    int threads;
};
using PrepareVariant = Variant<PrepareConfig, VarlenBatch>;

// Where a sequence ends and how long it is, whatever the numbers say: within the rows that there are.
struct SequenceRange {
    int end;
    int length;
};

FLASHCORE_HOST_DEVICE constexpr int clamp(int value, int low, int high) {
    return value < low ? low : value > high ? high : value;
}

FLASHCORE_HOST_DEVICE constexpr SequenceRange sequence_range(const SequenceLengths& lengths, int sequence) {
    const int begin = clamp(lengths.cu_seqlens[sequence], 0, lengths.total);
    const int row_count = clamp(lengths.cu_seqlens[sequence + 1], begin, lengths.total) - begin;
    const int length = lengths.seqused == nullptr ? row_count : clamp(lengths.seqused[sequence], 0, row_count);
    return {begin + length, length};
}

// The workspace: the tickets, in the place of a span, and then the spans.
FLASHCORE_HOST_DEVICE constexpr int64_t workspace_bytes(int64_t batch) {
    return (batch + 2) * static_cast<int64_t>(sizeof(SequenceInfo));
}

}  // namespace flashcore::attention
