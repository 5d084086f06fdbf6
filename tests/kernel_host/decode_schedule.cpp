// Shares out the lines that standard input describes, with kernel/include/flashcore/decode/schedule.h as it is.
// In:  one case a line: tile units pieces most ctas batch, then the keys of each sequence.
// Out: for each case "case TILES", then for each piece "CTA FIRST_TILE_OF_ITS_SHARE sequence unit keys first last index count
//      counter place", then "end".
#include <cstdio>
#include <iostream>
#include <vector>

#include "flashcore/decode/schedule.h"

using namespace flashcore::decode;

int main() {
    Cut cut{};
    int ctas = 0;
    int batch = 0;
    while (std::cin >> cut.tile >> cut.units >> cut.pieces >> cut.most >> ctas >> batch) {
        std::vector<int> keys(batch);
        for (int& one : keys) std::cin >> one;
        std::vector<int> origin{0};
        for (const int one : keys) origin.push_back(origin.back() + cut.units * tiles_of(cut, one));
        const Shares shares(origin.back(), ctas);
        std::printf("case %d\n", origin.back());
        const auto keys_of = [&](int sequence) { return keys.at(sequence); };
        for (int cta = 0; cta < ctas; ++cta) {
            const int tile = shares.begin(cta);
            for (int other = tile; other < shares.begin(cta + 1); ++other) {
                if (shares.owner(other) != cta) std::printf("tile %d belongs to %d and to %d\n", other, cta, shares.owner(other));
            }
            int sequence = 0;
            while (sequence < batch && origin[sequence + 1] <= tile) ++sequence;
            const Place place = sequence < batch ? place_in(sequence, origin[sequence], tiles_of(cut, keys[sequence]), tile)
                                                 : Place{batch, 0, tile};
            Walk<decltype(keys_of)> walk(cut, shares, cta, place, keys_of);
            for (Piece piece; walk.next(piece);) {
                std::printf("%d %d %d %d %d %d %d %d %d %d %d\n", cta, tile, piece.sequence, piece.unit, piece.keys, piece.first,
                            piece.last, piece.index, piece.count, piece.counter, piece.place);
            }
        }
        std::printf("end\n");
    }
}
