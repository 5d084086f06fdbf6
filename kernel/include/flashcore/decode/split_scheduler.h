// The assignment of keys to CTAs. Pure integer functions of the sequence lengths, the same on host and device.
//
// A work tile is one sequence, one or several KV heads, and as many query rows as the consumer warps have row tiles. Its length
// is its number of KV tiles. The linearised work list contains the tiles of all work tiles. After each work tile comes a gap for
// the cost of its end. Each CTA gets an equal range of the list. The first work tiles of all sequences come first, then the
// second ones. So if each KV head has the same number of CTAs, the heads of a key, which are neighbours in memory, are read at
// the same time.
//
// A work tile is split where a CTA range ends. For deterministic results its own length decides instead. Then a split belongs to
// the CTA in whose range it begins. The fix-up merges the splits of a work tile in order.
#pragma once

#include "flashcore/core/host_device.h"

namespace flashcore::decode {

constexpr int kSplitKeys = 512;  // least keys of a split when the length decides
constexpr int kMaxSplits = 64;   // most splits of a work tile then
constexpr int kMaxForcedSplits = 1024;

struct SplitPolicy {
    int tile_shift;  // log2 of the keys of a tile
    int work_tiles;  // per sequence
    int sequences;
    int splits;      // 0: split at CTA ranges. Otherwise by length: -1 a number that follows from it, else at most this many
    int max_splits;  // most splits of any work tile when the length decides, which all have room in the workspace
    int gap;         // length of the gap after each work tile
};

FLASHCORE_HOST_DEVICE constexpr int min_int(int a, int b) { return a < b ? a : b; }
FLASHCORE_HOST_DEVICE constexpr int max_int(int a, int b) { return a < b ? b : a; }
// For numbers that are not negative. Unsigned divisions take fewer instructions.
FLASHCORE_HOST_DEVICE constexpr int divide(int a, int b) {
    return static_cast<int>(static_cast<unsigned>(a) / static_cast<unsigned>(b));
}
FLASHCORE_HOST_DEVICE constexpr int divide_up(int a, int b) { return divide(a + b - 1, b); }

// Keys of a sequence after an append of `added` to `length`, in a cache of this capacity. Keys that do not fit are dropped.
FLASHCORE_HOST_DEVICE constexpr int keys_after(int length, int added, int capacity) {
    return max_int(min_int(length, capacity - added), 0) + added;
}
// Keys of the same sequence before the append.
FLASHCORE_HOST_DEVICE constexpr int keys_before(int length, int capacity) { return max_int(min_int(length, capacity), 0); }

// A sequence without keys has one tile too, because a CTA must write its zeros.
FLASHCORE_HOST_DEVICE constexpr int tiles_of(const SplitPolicy& split_policy, int keys) {
    return max_int((keys + (1 << split_policy.tile_shift) - 1) >> split_policy.tile_shift, 1);
}

// The number of splits of a work tile when its length decides.
FLASHCORE_HOST_DEVICE constexpr int split_count(const SplitPolicy& split_policy, int tiles) {
    const int requested = split_policy.splits > 0 ? split_policy.splits
                                                  : min_int(divide_up(tiles << split_policy.tile_shift, kSplitKeys), kMaxSplits);
    return min_int(requested, tiles);
}

// Divides a number of tiles into equal parts. The first `longer` parts have one tile more.
struct EvenPartition {
    int whole;
    int longer;

    FLASHCORE_HOST_DEVICE constexpr EvenPartition(int tiles, int parts)
        : whole(divide(tiles, parts)), longer(tiles - whole * parts) {}

    FLASHCORE_HOST_DEVICE constexpr int begin(int part) const { return part * whole + min_int(part, longer); }

    FLASHCORE_HOST_DEVICE constexpr int owner(int tile) const {
        const int boundary = longer * (whole + 1);
        const bool in_longer = tile < boundary;
        return (in_longer ? 0 : longer) + divide(in_longer ? tile : tile - boundary, in_longer ? whole + 1 : whole);
    }
};

// The position of a work tile in the work list.
struct WorkPosition {
    int sequence;
    int work_tile;  // index within the sequence
    int origin;     // its first tile in the work list
};

constexpr int kNoWorkTile = -1;

// Consecutive tiles of a work tile that one CTA processes.
struct Split {
    int sequence;
    int work_tile;  // index within the sequence, or kNoWorkTile at the end
    int keys;       // of the sequence
    int first;      // first tile within the work tile
    int last;       // one past the last tile
    int origin;     // of the work tile
    int cta;        // CTA that processes the split
};

constexpr int kQueryBits = 8;

// A split of a sequence with packed queries, and what consumers need to know of these.
struct RaggedSplit : Split {
    int first_query;  // row of the sequence's first query
    int shape;        // the number of its queries, and above bit kQueryBits the log2 of their row tiles: registers are short

    FLASHCORE_HOST_DEVICE constexpr int queries() const { return shape & ((1 << kQueryBits) - 1); }
    FLASHCORE_HOST_DEVICE constexpr int tile_shift() const { return shape >> kQueryBits; }
};

constexpr int kLeftOut = -1;  // keys of a sequence that has no work in this launch

// Length of a work tile in the work list, with the gap after it.
template <bool kRagged>
FLASHCORE_HOST_DEVICE constexpr int length_of(const SplitPolicy& split_policy, int keys) {
    if constexpr (kRagged) {
        if (keys == kLeftOut) return 0;
    }
    return tiles_of(split_policy, keys) + split_policy.gap;
}

// Fix-up info: how the splits of a work tile find each other in the workspace.
struct FixupInfo {
    int split_index;    // number of this split
    int split_count;    // splits of the work tile
    int counter;        // counts the finished splits
    int first_partial;  // where the first split's partial result goes. The others follow
};

// Ragged launches split at CTA ranges only, so that registers suffice.
template <bool kRagged>
FLASHCORE_HOST_DEVICE constexpr bool splits_at_cta_ranges(const SplitPolicy& split_policy) {
    return kRagged || split_policy.splits == 0;
}

// Partial results of different work tiles do not overlap. The CTA with the last of n splits may own the next work tile, and 2
// (owner + n - 1) >= 2 owner + n.
template <bool kRagged = false>
FLASHCORE_HOST_DEVICE constexpr FixupInfo fixup_info(const SplitPolicy& split_policy, const EvenPartition& cta_ranges,
                                                     const Split& split) {
    const int tiles = tiles_of(split_policy, split.keys);
    if (!splits_at_cta_ranges<kRagged>(split_policy)) {
        const int count = split_count(split_policy, tiles);
        const int number = split.sequence * split_policy.work_tiles + split.work_tile;
        return {EvenPartition(tiles, count).owner(split.first), count, number, number * split_policy.max_splits};
    }
    if (split.first == 0 && split.last == tiles) return {0, 1, 0, 0};
    const int owner = cta_ranges.owner(split.origin);
    return {split.cta - owner, cta_ranges.owner(split.origin + tiles - 1) - owner + 1, owner, 2 * owner};
}

// Iterates over the splits of one CTA in order. `SequenceKeys` returns the number of keys of a sequence, or kLeftOut if ragged.
template <class SequenceKeys, bool kRagged = false>
class SplitIterator {
public:
    // `begin` is the position of the work tile that holds the first tile of the range.
    FLASHCORE_HOST_DEVICE SplitIterator(const SplitPolicy& split_policy, const EvenPartition& cta_ranges, int cta,
                                        const WorkPosition& begin, const SequenceKeys& sequence_keys)
        : split_policy_(split_policy),
          sequence_keys_(sequence_keys),
          cta_(cta),
          next_tile_(cta_ranges.begin(cta)),
          end_(cta_ranges.begin(cta + 1)),
          position_(begin) {
        if (next_tile_ < end_) measure();
    }

    FLASHCORE_HOST_DEVICE bool next(Split& split) {
        while (next_tile_ < end_) {
            const bool in_gap = next_tile_ >= position_.origin + tiles_;
            const bool found = !in_gap && (splits_at_cta_ranges<kRagged>(split_policy_) ? split_at_cta_ranges(split)
                                                                                        : split_by_length(split));
            if (next_tile_ >= position_.origin + tiles_) next_work_tile();
            if (found) return true;
        }
        return false;
    }

private:
    FLASHCORE_HOST_DEVICE bool split_at_cta_ranges(Split& split) {
        const int last = min_int(tiles_, end_ - position_.origin);
        split = {position_.sequence, position_.work_tile, keys_, next_tile_ - position_.origin, last, position_.origin, cta_};
        next_tile_ = position_.origin + last;
        return true;
    }

    // Skips a split whose first tile is in an earlier range.
    FLASHCORE_HOST_DEVICE bool split_by_length(Split& split) {
        const int count = split_count(split_policy_, tiles_);
        const EvenPartition splits(tiles_, count);
        const int tile = next_tile_ - position_.origin;
        const int index = tile == 0 ? 0 : splits.owner(tile - 1) + 1;
        const int first = splits.begin(index);
        const bool found = index < count && position_.origin + first < end_;
        const int last = found ? splits.begin(index + 1) : min_int(first, end_ - position_.origin);
        if (found) split = {position_.sequence, position_.work_tile, keys_, first, last, position_.origin, cta_};
        next_tile_ = position_.origin + last;
        return found;
    }

    FLASHCORE_HOST_DEVICE void next_work_tile() {
        position_.origin += kRagged && keys_ == kLeftOut ? 0 : tiles_ + split_policy_.gap;
        next_tile_ = position_.origin;
        if (++position_.sequence == split_policy_.sequences) {
            position_.sequence = 0;
            ++position_.work_tile;
        }
        if (next_tile_ < end_) measure();
    }

    FLASHCORE_HOST_DEVICE void measure() {
        keys_ = sequence_keys_(position_.sequence);
        tiles_ = kRagged && keys_ == kLeftOut ? 0 : tiles_of(split_policy_, keys_);
    }

    const SplitPolicy& split_policy_;
    SequenceKeys sequence_keys_;
    int cta_;
    int next_tile_;  // in the work list
    int end_;        // of the CTA's range
    WorkPosition position_;
    int keys_ = 0;  // of the sequence
    int tiles_ = 0;
};

}  // namespace flashcore::decode
