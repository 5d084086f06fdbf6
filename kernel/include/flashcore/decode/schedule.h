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

constexpr int kPieceKeys = 512;  // of a piece that is cut by its unit's own length, at least
constexpr int kMostPieces = 64;  // of such a unit
constexpr int kMostForced = 1024;

struct Cut {
    int tile_shift;  // log2 of the keys of a tile
    int units;       // of each sequence
    int sequences;
    int pieces;  // 0: where shares end. Otherwise where a unit's own length says: -1 a number of it, else so many at most
    int most;    // pieces of any unit that is cut by its own length: so many places in the workspace belong to each
    int gap;     // tiles behind each unit that are none
};

FLASHCORE_HOST_DEVICE constexpr int least(int a, int b) { return a < b ? a : b; }
FLASHCORE_HOST_DEVICE constexpr int most(int a, int b) { return a < b ? b : a; }
// Of numbers that are not negative; unsigned divisions are shorter.
FLASHCORE_HOST_DEVICE constexpr int divide(int a, int b) {
    return static_cast<int>(static_cast<unsigned>(a) / static_cast<unsigned>(b));
}
FLASHCORE_HOST_DEVICE constexpr int divide_up(int a, int b) { return divide(a + b - 1, b); }

// Keys of a sequence after `added` ones were appended to `length`, in a cache with room for so many. What does not fit is dropped.
FLASHCORE_HOST_DEVICE constexpr int keys_after(int length, int added, int room) {
    return most(least(length, room - added), 0) + added;
}
// Keys of the same sequence before the append.
FLASHCORE_HOST_DEVICE constexpr int keys_before(int length, int room) { return most(least(length, room), 0); }

// A sequence without keys has a tile too: somebody must write its zeros.
FLASHCORE_HOST_DEVICE constexpr int tiles_of(const Cut& cut, int keys) {
    return most((keys + (1 << cut.tile_shift) - 1) >> cut.tile_shift, 1);
}

// Into how many pieces a unit is cut that is cut by its own length.
FLASHCORE_HOST_DEVICE constexpr int pieces_of(const Cut& cut, int tiles) {
    const int wanted = cut.pieces > 0 ? cut.pieces : least(divide_up(tiles << cut.tile_shift, kPieceKeys), kMostPieces);
    return least(wanted, tiles);
}

// A number of tiles in equal parts: the first `longer` have one tile more than the others.
struct Parts {
    int whole;
    int longer;

    FLASHCORE_HOST_DEVICE constexpr Parts(int tiles, int parts) : whole(divide(tiles, parts)), longer(tiles - whole * parts) {}

    FLASHCORE_HOST_DEVICE constexpr int begin(int part) const { return part * whole + least(part, longer); }

    FLASHCORE_HOST_DEVICE constexpr int owner(int tile) const {
        const int boundary = longer * (whole + 1);
        const bool in_longer = tile < boundary;
        return (in_longer ? 0 : longer) + divide(in_longer ? tile : tile - boundary, in_longer ? whole + 1 : whole);
    }
};

// Where a unit stands in the line.
struct Place {
    int sequence;
    int unit;    // of the sequence
    int origin;  // its first tile in the line
};

constexpr int kNoUnit = -1;

// Tiles of a unit that belong together.
struct Piece {
    int sequence;
    int unit;    // of the sequence; kNoUnit: there is no more
    int keys;    // of the sequence
    int first;   // tile of the unit
    int last;    // the tile behind the last one
    int origin;  // of the unit
    int share;   // that the piece belongs to
};

// How a piece and the others of its unit find each other in the workspace.
struct Joint {
    int index;    // which of the unit's pieces
    int count;    // of its pieces
    int counter;  // of its pieces that are finished
    int place;    // of its first piece; the others follow
};

// Places do not meet: the share that has the last of n pieces may own the next unit, and 2 (owner + n - 1) >= 2 owner + n.
FLASHCORE_HOST_DEVICE constexpr Joint joint_of(const Cut& cut, const Parts& shares, const Piece& piece) {
    const int tiles = tiles_of(cut, piece.keys);
    if (cut.pieces != 0) {
        const int count = pieces_of(cut, tiles);
        const int number = piece.sequence * cut.units + piece.unit;
        return {Parts(tiles, count).owner(piece.first), count, number, number * cut.most};
    }
    if (piece.first == 0 && piece.last == tiles) return {0, 1, 0, 0};
    const int owner = shares.owner(piece.origin);
    return {piece.share - owner, shares.owner(piece.origin + tiles - 1) - owner + 1, owner, 2 * owner};
}

// The pieces of one share, in order. `KeysOf` gives the number of keys of a sequence.
template <class KeysOf>
class Walk {
public:
    // `begin` is the place of the unit that holds the first tile of the share.
    FLASHCORE_HOST_DEVICE Walk(const Cut& cut, const Parts& shares, int share, const Place& begin, const KeysOf& keys_of)
        : cut_(cut), keys_of_(keys_of), share_(share), at_(shares.begin(share)), end_(shares.begin(share + 1)), place_(begin) {
        if (at_ < end_) measure();
    }

    FLASHCORE_HOST_DEVICE bool next(Piece& piece) {
        while (at_ < end_) {
            const bool in_gap = at_ >= place_.origin + tiles_;
            const bool found = !in_gap && (cut_.pieces == 0 ? cut_by_share(piece) : cut_by_length(piece));
            if (at_ >= place_.origin + tiles_) next_unit();
            if (found) return true;
        }
        return false;
    }

private:
    FLASHCORE_HOST_DEVICE bool cut_by_share(Piece& piece) {
        const int last = least(tiles_, end_ - place_.origin);
        piece = {place_.sequence, place_.unit, keys_, at_ - place_.origin, last, place_.origin, share_};
        at_ = place_.origin + last;
        return true;
    }

    // A piece whose first tile lies in an earlier share is passed over.
    FLASHCORE_HOST_DEVICE bool cut_by_length(Piece& piece) {
        const int count = pieces_of(cut_, tiles_);
        const Parts pieces(tiles_, count);
        const int at = at_ - place_.origin;
        const int index = at == 0 ? 0 : pieces.owner(at - 1) + 1;
        const int first = pieces.begin(index);
        const bool found = index < count && place_.origin + first < end_;
        const int last = found ? pieces.begin(index + 1) : least(first, end_ - place_.origin);
        if (found) piece = {place_.sequence, place_.unit, keys_, first, last, place_.origin, share_};
        at_ = place_.origin + last;
        return found;
    }

    FLASHCORE_HOST_DEVICE void next_unit() {
        place_.origin += tiles_ + cut_.gap;
        at_ = place_.origin;
        if (++place_.sequence == cut_.sequences) {
            place_.sequence = 0;
            ++place_.unit;
        }
        if (at_ < end_) measure();
    }

    FLASHCORE_HOST_DEVICE void measure() {
        keys_ = keys_of_(place_.sequence);
        tiles_ = tiles_of(cut_, keys_);
    }

    const Cut& cut_;
    KeysOf keys_of_;
    int share_;
    int at_;   // the next tile of the line
    int end_;  // of the share
    Place place_;
    int keys_ = 0;  // of the sequence
    int tiles_ = 0;
};

}  // namespace flashcore::decode
