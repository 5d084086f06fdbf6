// A varlen batch: the input of the kernel that prepares it, and the layout of its workspace. Host and device.
#pragma once

#include <cstdint>
#include <type_traits>

#include "flashcore/attention/params.h"
#include "flashcore/core/sequence_range.h"
#include "flashcore/core/variant.h"

namespace flashcore::attention {

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
    int shared_tiles;  // of a sequence whose heads share tiles (shared_heads.h). 0: no heads share tiles
    int ctas;          // heads share tiles only where there are more tiles than these
};

// A batch with keys in pages, or packed. Sequences of fewer queries get no tiles: another launch may serve them.
struct PagedBatch : VarlenBatch {
    int min_queries;
    bool packed;  // no pages: min_queries is not used
};

template <bool kPaged>
using BatchOf = std::conditional_t<kPaged, PagedBatch, VarlenBatch>;

struct PrepareConfig {
    int threads;
};
using PrepareVariant = Variant<PrepareConfig, PagedBatch>;

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
