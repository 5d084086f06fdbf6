// Where the rows of a sequence are in a batch of packed rows. Host and device.
#pragma once

#include "flashcore/core/host_device.h"

namespace flashcore {

// Sequence b has the rows cu_seqlens[b] .. cu_seqlens[b + 1] - 1, or the first seqused[b] of them.
struct SequenceLengths {
    const int* cu_seqlens;
    const int* seqused;  // or null
    int total;           // existing rows
};

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

}  // namespace flashcore
