// The assignment of keys to CTAs in deterministic launches. Pure integer functions of the sequence lengths, the same on host and device.
//
// The keys of a sequence are cut into segments, at places that follow from its own length. Each segment is summed up by itself, and
// the sums are folded from the first segment to the last: ((s0 + s1) + s2) + s3. So a sequence's bits do not depend on which CTAs
// process it. A segment belongs to the CTA in whose range of the work list it begins. A CTA that has a work tile's first segment
// folds as it goes and leaves one partial result. The segments of other CTAs are left one by one. The last CTA that finishes the
// work tile folds all of them.
#pragma once

#include "flashcore/decode/split_scheduler.h"

namespace flashcore::decode {

constexpr int kSegmentKeys = 512;   // of a short sequence
constexpr int kSegmentTiles = 8;    // at most, of such a sequence. With 256 columns they have 256 keys
constexpr int kShortSegments = 32;  // most segments of such a sequence. Longer ones have segments four times as long
constexpr int kMaxSegments = 128;   // most segments of any sequence

// The segments of a work tile.
struct Segments {
    int shift;  // log2 of the tiles of a segment. The last one may be shorter
    int count;

    FLASHCORE_HOST_DEVICE constexpr int begin(int segment) const { return segment << shift; }
    // The first segment that begins at a tile or after it.
    FLASHCORE_HOST_DEVICE constexpr int from(int tile) const { return (tile + (1 << shift) - 1) >> shift; }
};

FLASHCORE_HOST_DEVICE constexpr int least_segment_shift(const SplitPolicy& split_policy) {
    int shift = 0;
    while (1 << shift < kSegmentTiles && 1 << (split_policy.tile_shift + shift) < kSegmentKeys) ++shift;
    return shift;
}

// How long segments are, and the most of them.
struct SegmentLimit {
    int shift;
    int most;
};

// Longer sequences have segments four times as long: each is folded one after the other, and they have enough of them to share.
FLASHCORE_HOST_DEVICE constexpr SegmentLimit segment_limit(const SplitPolicy& split_policy, int tiles) {
    const int least = least_segment_shift(split_policy);
    if (tiles <= kShortSegments << least) return {least, kShortSegments};
    SegmentLimit limit{least + 2, 2 * kShortSegments};
    while (tiles > limit.most << limit.shift) {
        ++limit.shift;
        limit.most = kMaxSegments;
    }
    return limit;
}

FLASHCORE_HOST_DEVICE constexpr Segments segments_of(const SplitPolicy& split_policy, int tiles) {
    const Segments segments{segment_limit(split_policy, tiles).shift, 0};
    return {segments.shift, segments.from(tiles)};
}

// Most segments of a work tile of at most so many tiles.
FLASHCORE_HOST_DEVICE constexpr int most_segments(const SplitPolicy& split_policy, int tiles) {
    return min_int(segment_limit(split_policy, tiles).most, Segments{least_segment_shift(split_policy), 0}.from(tiles));
}

// Where the partial results of a work tile that several CTAs share are in the workspace. Each CTA has `slots` places: the first one
// for the work tile that begins there and ends elsewhere, the others for the segments of the one that began elsewhere.
struct SegmentPlaces {
    Segments segments;
    int origin;  // of the work tile
    int slots;

    // What the owner of the first segment has folded.
    FLASHCORE_HOST_DEVICE constexpr int folded_place(const EvenPartition& cta_ranges) const {
        return cta_ranges.owner(origin) * slots;
    }
    FLASHCORE_HOST_DEVICE constexpr int folded_count(const EvenPartition& cta_ranges) const {
        return segments.from(cta_ranges.begin(cta_ranges.owner(origin) + 1) - origin);
    }
    // The place of a later segment.
    FLASHCORE_HOST_DEVICE constexpr int place(const EvenPartition& cta_ranges, int segment) const {
        const int owner = cta_ranges.owner(origin + segments.begin(segment));
        return owner * slots + 1 + segment - segments.from(cta_ranges.begin(owner) - origin);
    }
};

// Iterates over the work tiles of one CTA in order. A split is all segments of a work tile that the CTA owns.
template <class SequenceKeys>
class SegmentIterator {
public:
    // As in SplitIterator.
    FLASHCORE_HOST_DEVICE SegmentIterator(const SplitPolicy& split_policy, const EvenPartition& cta_ranges, int cta,
                                          const WorkPosition& begin, const SequenceKeys& sequence_keys)
        : split_policy_(split_policy),
          sequence_keys_(sequence_keys),
          cta_(cta),
          next_tile_(cta_ranges.begin(cta)),
          end_(cta_ranges.begin(cta + 1)),
          position_(begin) {}

    FLASHCORE_HOST_DEVICE bool next(Split& split) {
        while (next_tile_ < end_) {
            const int keys = sequence_keys_(position_.sequence);
            const int tiles = tiles_of(split_policy_, keys);
            const Segments segments = segments_of(split_policy_, tiles);
            const int first = segments.begin(segments.from(next_tile_ - position_.origin));
            const int last = min_int(segments.begin(segments.from(end_ - position_.origin)), tiles);
            split = {position_.sequence, position_.work_tile, keys, first, last, position_.origin, cta_};
            next_work_tile(tiles);
            if (first < last) return true;
        }
        return false;
    }

private:
    FLASHCORE_HOST_DEVICE void next_work_tile(int tiles) {
        position_.origin += tiles + split_policy_.gap;
        next_tile_ = position_.origin;
        if (++position_.sequence == split_policy_.sequences) {
            position_.sequence = 0;
            ++position_.work_tile;
        }
    }

    const SplitPolicy& split_policy_;
    SequenceKeys sequence_keys_;
    int cta_;
    int next_tile_;  // in the work list
    int end_;        // of the CTA's range
    WorkPosition position_;
};

}  // namespace flashcore::decode
