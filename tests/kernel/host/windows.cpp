// The KV blocks that tiles and warpgroups visit through windows, with the headers of kernel/include/flashcore/attention.
//
// Input: one case per line: tile_m tile_n sq sk left right chunk.
//
// Output per case: "case", a line per tile "row begin end" and for each consumer warpgroup "work_kind n_blocks fully_masked unmasked
// first first_unmasked", and "end".
#include <cstdio>
#include <iostream>

#include "flashcore/attention/warpgroup_work.h"

using namespace flashcore::attention;

namespace {

template <int kTileM, int kTileN>
struct Tuning {
    static constexpr Config config{64,   DType::kFp16, true, kTileM, kTileN, 2, 3, kTileM / kWarpgroupRows,
                                   true, false,        true, true,   false,  false,  true};
};

template <class Tuning>
void run(const LocalParams& params, int sq, int sk) {
    constexpr Config kConfig = Tuning::config;
    for (int row = 0; row < sq; row += kConfig.tile_m) {
        const Tile tile{row, 0, 0, sq - row, row + 1 + sk - sq};
        const BlockRange blocks = needed_blocks<Tuning>(params, tile, 0, kConfig.tile_m);
        std::printf("%d %d %d", row, blocks.begin, blocks.end);
        for (int warpgroup = 0; warpgroup < kConfig.consumer_warpgroups; ++warpgroup) {
            const WorkKind kind = work_kind<Tuning>(params, tile, warpgroup);
            const WarpgroupWork work = warpgroup_work<Tuning>(params, tile, warpgroup);
            std::printf(" %d %d %d %d %d %d", static_cast<int>(kind), work.n_blocks, work.fully_masked, work.unmasked, work.first,
                        work.first_unmasked);
        }
        std::printf("\n");
    }
}

}  // namespace

int main() {
    int tile_m = 0;
    int tile_n = 0;
    int sq = 0;
    int sk = 0;
    int left = 0;
    int right = 0;
    int chunk = 0;
    while (std::cin >> tile_m >> tile_n >> sq >> sk >> left >> right >> chunk) {
        LocalParams params{};
        params.score_sign = kUnchanged;
        params.local.window = flashcore::make_window(left, right, chunk);
        std::printf("case\n");
        if (tile_m == 192) {
            run<Tuning<192, 128>>(params, sq, sk);
        } else if (tile_n == 128) {
            run<Tuning<128, 128>>(params, sq, sk);
        } else {
            run<Tuning<128, 64>>(params, sq, sk);
        }
        std::printf("end\n");
    }
}
