// Prints what each lane copies of a tile, by decode/copy_map.h. A line per configuration, then a line per copy:
// "head_dim bytes tile_keys warps", "warp lane copy: row unit offset, row of the lane that gives the address".
#include <cstdio>

#include "flashcore/decode/copy_map.h"

using namespace flashcore;
using namespace flashcore::decode;

template <int kHeadDim, int kTileKeys, bool kFp8, int kWarps>
struct Tuning {
    static constexpr Config config{kHeadDim, DType::kFp16, kTileKeys, 5, 8, false, kFp8, false, false, false, false, true, kWarps};
};

template <class OneTuning>
void print() {
    using Map = CopyMap<OneTuning>;
    constexpr Config config = OneTuning::config;
    std::printf("map %d %d %d %d\n", config.head_dim, cache_bytes(config), config.tile_keys, config.producer_warps);
    for (int warp = 0; warp < Map::kWarps; ++warp) {
        for (int lane = 0; lane < Map::kLanes; ++lane) {
            for (int i = 0; i < Map::kCopies; ++i) {  // as in Gather::copy
                const int unit = lane % Map::kRowUnits;
                const uint32_t first = Map::shared_offset(Map::row_of_copy(warp, lane, i % Map::kPeriod), unit);
                const uint32_t offset = first + i / Map::kPeriod * Map::kPeriodBytes;
                std::printf("%d %d %d %d %d %u %d\n", warp, lane, i, Map::row_of_copy(warp, lane, i), unit, offset,
                            Map::row_of_lane(warp, Map::source_lane(lane, i), Map::source_row(i)));
            }
        }
    }
}

template <int kWarps>
void print_all() {
    print<Tuning<64, 128, false, kWarps>>();
    print<Tuning<128, 64, false, kWarps>>();
    print<Tuning<256, 32, false, kWarps>>();
    print<Tuning<64, 256, true, kWarps>>();
    print<Tuning<128, 128, true, kWarps>>();
    print<Tuning<256, 64, true, kWarps>>();
}

int main() {
    print_all<1>();
    print_all<2>();
    print_all<4>();
}
