// Who attends to which keys. Pure integer functions of the sequences' lengths, the same on the host and on the device.
//
// A unit is one sequence, one KV head or several, and as many query rows as the consumer warps have row tiles; its keys are
// counted in tiles. The tiles of all units stand in one line, with a gap behind each that stands for the work of its end, and
// each CTA has an equal share of that line. First come the first units of all sequences, then the second ones: where as many CTAs
// have each KV head, the heads of a key, which lie side by side in memory, are read at the same time. A unit is cut into pieces
// where a share ends; or, if it is to give the same bits whatever stands beside it, where its own length says, and then a piece
// belongs to the share in which it begins. A unit of several pieces is put together in their order.
#pragma once

#include "flashcore/core/host_device.h"

namespace flashcore::decode {

constexpr int kSplitKeys = 512;  // of a piece that is cut by its unit's own length, at least
constexpr int kMaxSplits = 64;   // of such a unit
constexpr int kMaxForcedSplits = 1024;

struct SplitPolicy {
    int tile_shift;  // log2 of the keys of a tile
    int work_tiles;  // of each sequence
    int sequences;
    int splits;      // 0: where shares end. Otherwise where a unit's own length says: -1 a number of it, else so many at most
    int max_splits;  // pieces of any unit that is cut by its own length: so many places in the workspace belong to each
    int gap;         // tiles behind each unit that are none
};

FLASHCORE_HOST_DEVICE constexpr int min_int(int a, int b) { return a < b ? a : b; }
FLASHCORE_HOST_DEVICE constexpr int max_int(int a, int b) { return a < b ? b : a; }
// Of numbers that are not negative; unsigned divisions are shorter.
FLASHCORE_HOST_DEVICE constexpr int divide(int a, int b) {
    return static_cast<int>(static_cast<unsigned>(a) / static_cast<unsigned>(b));
}
FLASHCORE_HOST_DEVICE constexpr int divide_up(int a, int b) { return divide(a + b - 1, b); }

// A sequence without keys has a tile too: somebody must write its zeros.
FLASHCORE_HOST_DEVICE constexpr int tiles_of(const SplitPolicy& split_policy, int keys) {
    return max_int((keys + (1 << split_policy.tile_shift) - 1) >> split_policy.tile_shift, 1);
}

// Into how many pieces a unit is cut that is cut by its own length.
FLASHCORE_HOST_DEVICE constexpr int split_count(const SplitPolicy& split_policy, int tiles) {
    const int requested = split_policy.splits > 0 ? split_policy.splits
                                                  : min_int(divide_up(tiles << split_policy.tile_shift, kSplitKeys), kMaxSplits);
    return min_int(requested, tiles);
}

// A number of tiles in equal parts: the first `longer` have one tile more than the others.
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

// Where a unit stands in the line.
struct WorkPosition {
    int sequence;
    int work_tile;  // of the sequence
    int origin;     // its first tile in the line
};

constexpr int kNoWorkTile = -1;

// Tiles of a unit that belong together.
struct Split {
    int sequence;
    int work_tile;  // of the sequence; kNoUnit: there is no more
    int keys;       // of the sequence
    int first;      // tile of the unit
    int last;       // the tile behind the last one
    int origin;     // of the unit
    int cta;        // that the piece belongs to
};

// How a piece and the others of its unit find each other in the workspace.
struct FixupInfo {
    int split_index;    // which of the unit's pieces
    int split_count;    // of its pieces
    int counter;        // of its pieces that are finished
    int first_partial;  // of its first piece; the others follow
};

// Places do not meet: the share that has the last of n pieces may own the next unit, and 2 (owner + n - 1) >= 2 owner + n.
FLASHCORE_HOST_DEVICE constexpr FixupInfo fixup_info(const SplitPolicy& split_policy, const EvenPartition& cta_ranges,
                                                     const Split& split) {
    const int tiles = tiles_of(split_policy, split.keys);
    if (split_policy.splits != 0) {
        const int count = split_count(split_policy, tiles);
        const int number = split.sequence * split_policy.work_tiles + split.work_tile;
        return {EvenPartition(tiles, count).owner(split.first), count, number, number * split_policy.max_splits};
    }
    if (split.first == 0 && split.last == tiles) return {0, 1, 0, 0};
    const int owner = cta_ranges.owner(split.origin);
    return {split.cta - owner, cta_ranges.owner(split.origin + tiles - 1) - owner + 1, owner, 2 * owner};
}

// The pieces of one share, in order. `KeysOf` gives the number of keys of a sequence.
template <class SequenceKeys>
class SplitIterator {
public:
    // `begin` is the place of the unit that holds the first tile of the share.
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
            const bool found = !in_gap && (split_policy_.splits == 0 ? split_at_cta_ranges(split) : split_by_length(split));
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

    // A piece whose first tile lies in an earlier share is passed over.
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
        position_.origin += tiles_ + split_policy_.gap;
        next_tile_ = position_.origin;
        if (++position_.sequence == split_policy_.sequences) {
            position_.sequence = 0;
            ++position_.work_tile;
        }
        if (next_tile_ < end_) measure();
    }

    FLASHCORE_HOST_DEVICE void measure() {
        keys_ = sequence_keys_(position_.sequence);
        tiles_ = tiles_of(split_policy_, keys_);
    }

    const SplitPolicy& split_policy_;
    SequenceKeys sequence_keys_;
    int cta_;
    int next_tile_;  // the next tile of the line
    int end_;        // of the share
    WorkPosition position_;
    int keys_ = 0;  // of the sequence
    int tiles_ = 0;
};

}  // namespace flashcore::decode
