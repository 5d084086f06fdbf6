// Splits work lists with kernel/include/flashcore/decode/split_scheduler.h.
//
// Input: one case per line: tile work_tiles splits max_splits gap ctas batch, then the keys of each sequence, -1 if it is left out.
//
// Output per case: "case TILES", a line per split "CTA sequence work_tile keys first last split_index split_count counter
// first_partial", and "end".
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <vector>

#include "flashcore/decode/split_scheduler.h"

using namespace flashcore::decode;

namespace {

template <bool kRagged>
void split(const SplitPolicy& split_policy, const std::vector<int>& keys, int ctas) {
    std::vector<int> origin{0};
    for (const int one : keys) origin.push_back(origin.back() + length_of<kRagged>(split_policy, one));
    const int row = origin.back();
    const EvenPartition cta_ranges(split_policy.work_tiles * row, ctas);
    std::printf("case %d\n", split_policy.work_tiles * row);
    const auto sequence_keys = [&](int sequence) { return keys.at(sequence); };
    for (int cta = 0; cta < ctas && row > 0; ++cta) {
        const int tile = cta_ranges.begin(cta);
        for (int other = tile; other < cta_ranges.begin(cta + 1); ++other) {
            if (cta_ranges.owner(other) != cta)
                std::printf("tile %d belongs to CTA %d and to %d\n", other, cta, cta_ranges.owner(other));
        }
        int sequence = 0;
        while (origin[sequence + 1] <= tile % row) ++sequence;
        const WorkPosition position{sequence, tile / row, tile / row * row + origin[sequence]};
        SplitIterator<decltype(sequence_keys), kRagged> splits(split_policy, cta_ranges, cta, position, sequence_keys);
        for (Split split; splits.next(split);) {
            const FixupInfo fixup = fixup_info<kRagged>(split_policy, cta_ranges, split);
            std::printf("%d %d %d %d %d %d %d %d %d %d\n", cta, split.sequence, split.work_tile, split.keys, split.first,
                        split.last, fixup.split_index, fixup.split_count, fixup.counter, fixup.first_partial);
        }
    }
    std::printf("end\n");
}

}  // namespace

int main() {
    SplitPolicy split_policy{};
    int tile = 0;
    int ctas = 0;
    int batch = 0;
    while (std::cin >> tile >> split_policy.work_tiles >> split_policy.splits >> split_policy.max_splits >> split_policy.gap >>
           ctas >> batch) {
        split_policy.tile_shift = 0;
        while (1 << split_policy.tile_shift < tile) ++split_policy.tile_shift;
        std::vector<int> keys(batch);
        for (int& one : keys) std::cin >> one;
        split_policy.sequences = batch;
        const bool left_out = std::find(keys.begin(), keys.end(), kLeftOut) != keys.end();
        left_out ? split<true>(split_policy, keys, ctas) : split<false>(split_policy, keys, ctas);
    }
}
