// Deals out the lines that standard input describes, with kernel/include/flashcore/decode/schedule.h as it is.
// In:  one case a line: tile units pieces most gap ctas batch, then the keys of each sequence.
// Out: for each case "case TILES", then for each piece "SHARE sequence unit keys first last index count counter place", then
// "end".
#include <cstdio>
#include <iostream>
#include <vector>

#include "flashcore/decode/schedule.h"

using namespace flashcore::decode;

int main() {
    Cut cut{};
    int tile = 0;
    int ctas = 0;
    int batch = 0;
    while (std::cin >> tile >> cut.units >> cut.pieces >> cut.most >> cut.gap >> ctas >> batch) {
        cut.tile_shift = 0;
        while (1 << cut.tile_shift < tile) ++cut.tile_shift;
        std::vector<int> keys(batch);
        for (int& one : keys) std::cin >> one;
        cut.sequences = batch;
        std::vector<int> origin{0};
        for (const int one : keys) origin.push_back(origin.back() + tiles_of(cut, one) + cut.gap);
        const int row = origin.back();
        const Parts shares(cut.units * row, ctas);
        std::printf("case %d\n", cut.units * row);
        const auto keys_of = [&](int sequence) { return keys.at(sequence); };
        for (int share = 0; share < ctas; ++share) {
            const int tile = shares.begin(share);
            for (int other = tile; other < shares.begin(share + 1); ++other) {
                if (shares.owner(other) != share)
                    std::printf("tile %d belongs to share %d and to %d\n", other, share, shares.owner(other));
            }
            int sequence = 0;
            while (origin[sequence + 1] <= tile % row) ++sequence;
            const Place place{sequence, tile / row, tile / row * row + origin[sequence]};
            Walk<decltype(keys_of)> walk(cut, shares, share, place, keys_of);
            for (Piece piece; walk.next(piece);) {
                const Joint joint = joint_of(cut, shares, piece);
                std::printf("%d %d %d %d %d %d %d %d %d %d\n", share, piece.sequence, piece.unit, piece.keys, piece.first,
                            piece.last, joint.index, joint.count, joint.counter, joint.place);
            }
        }
        std::printf("end\n");
    }
}
