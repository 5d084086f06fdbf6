// A varlen batch: the input of the kernel that prepares it, and the layout of its workspace. Host and device.
#pragma once

#include <cstdint>

#include "flashcore/attention/params.h"
#include "flashcore/core/host_device.h"
#include "flashcore/core/variant.h"

namespace flashcore::attention {

// Sequence b has the rows cu_seqlens[b] .. cu_seqlens[b + 1] - 1, or the first seqused[b] of them.
struct SequenceLengths {
    const int* cu_seqlens;
    const int* seqused;  // or null
    int total;           // existing rows
};

struct VarlenBatch {
    SequenceLengths q;
    SequenceLengths k;  // of pages: no cu_seqlens, and `total` is the most keys of a sequence
    SequenceInfo* sequence_infos;  // one per sequence, and one more
    TileCounter* tile_counter;
    int batch;
    int heads;
    int head_dim;  // of the variant, like tile_m
    int tile_m;
    bool causal;
};

struct PrepareConfig {
    int threads;
};
using PrepareVariant = Variant<PrepareConfig, VarlenBatch>;

// End and length of a sequence. Both stay within the existing rows, whatever the numbers say.
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

// A sequence with keys in pages: its place in the page table, and its length, up to `total` keys. Null `seqused`: all have those.
FLASHCORE_HOST_DEVICE constexpr SequenceRange paged_range(const SequenceLengths& lengths, int sequence) {
    return {sequence, lengths.seqused == nullptr ? lengths.total : clamp(lengths.seqused[sequence], 0, lengths.total)};
}

template <bool kPaged>
FLASHCORE_HOST_DEVICE constexpr SequenceRange key_range(const SequenceLengths& lengths, int sequence) {
    return kPaged ? paged_range(lengths, sequence) : sequence_range(lengths, sequence);
}

// The workspace: the tile counter, in the place of one SequenceInfo, and then the sequence infos.
FLASHCORE_HOST_DEVICE constexpr int64_t workspace_bytes(int64_t batch) {
    return (batch + 2) * static_cast<int64_t>(sizeof(SequenceInfo));
}

}  // namespace flashcore::attention
