// Hands out the tiles of the batches that standard input describes, with kernel/include/flashcore/attention/*.h as they are.
// In:  one batch a line: causal tile_m tile_n heads ctas ragged sequences, then q_begin sq k_begin sk of each sequence. Ragged:
// in
//      the order of the spans; else all sequences are as long as the first.
// Out: for each batch "batch TILES", then as the CTAs take them, in turn, "cta row head batch rows visible kv_batch first_key"
// and, for
//      each consumer warpgroup, "part steps skipped clear"; then "end" and the tickets that are left.
#include <cstdio>
#include <iostream>
#include <vector>

#include "flashcore/attention/plan.h"
#include "flashcore/attention/share.h"

using namespace flashcore::attention;

namespace {

template <int kTileM, int kTileN, bool kCausal>
struct Tuning {
    static constexpr Config config{64,   DType::kFp16, kCausal, kTileM, kTileN, 2, 3, kTileM / kWarpgroupRows,
                                   true, false,        true,    true,   false};
};

template <class Tuning>
void hand_out(const Params& params, int ctas) {
    constexpr Config kConfig = Tuning::config;
    gridDim.x = static_cast<unsigned>(ctas);
    std::vector<TileQueue> queues;
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) queues.emplace_back(params);
    std::vector<bool> done(queues.size());
    for (bool more = true; more;) {
        more = false;
        for (size_t cta = 0; cta < queues.size(); ++cta) {
            const int index = done[cta] ? kNoTile : queues[cta].take();
            done[cta] = index == kNoTile;
            if (done[cta]) continue;
            queues[cta].draw();
            more = true;
            const Load load = tile_at<kConfig.causal>(params, index, kConfig.tile_m);
            const Tile& tile = load.tile;
            std::printf("%zu %d %d %d %d %d %d %d", cta, tile.row, tile.head, tile.batch, tile.rows, tile.visible, load.kv_batch,
                        load.first_key);
            for (int warpgroup = 0; warpgroup < kConfig.consumer_warpgroups; ++warpgroup) {
                const Share share = share_of<Tuning>(params, tile, warpgroup);
                std::printf(" %d %d %d %d", static_cast<int>(part_of<Tuning>(tile, warpgroup)), share.steps, share.skipped,
                            share.clear);
            }
            std::printf("\n");
        }
    }
}

struct Sequence {
    int q_begin;
    int sq;
    int k_begin;
    int sk;
};

template <class Tuning>
void run(int heads, int ctas, bool ragged, const std::vector<Sequence>& sequences) {
    constexpr Config kConfig = Tuning::config;
    const auto count = static_cast<int>(sequences.size());
    Params params{};
    Tickets tickets{};
    std::vector<Span> spans;
    params.heads = heads;
    params.score_sign = kUnchanged;
    params.tickets = &tickets;
    params.sq = ragged ? kBatchRows : sequences.front().sq;
    params.sk = ragged ? kBatchRows : sequences.front().sk;
    const Problem problem{DType::kFp16, kConfig.causal, 64, int64_t{count} * heads, params.sq, params.sk};
    params.schedule = plan(kConfig, problem, ctas, 0).schedule;
    int tiles = params.schedule.tiles;
    if (ragged) {
        tiles = 0;
        for (const Sequence& one : sequences) {
            const int row_tiles = (one.sq + kConfig.tile_m - 1) / kConfig.tile_m;
            const auto group = static_cast<int>(group_size(kConfig.causal, kConfig.head_dim, one.sk, heads));
            spans.push_back({tiles, row_tiles, group, one.q_begin + one.sq, one.k_begin + one.sk, one.sq, one.sk});
            tiles += row_tiles * heads;
        }
        spans.push_back({tiles, 0, 0, 0, 0, 0, 0});
        params.schedule.sequences = count;
        params.spans = spans.data();
    }
    std::printf("batch %d\n", tiles);
    hand_out<Tuning>(params, ctas);
    std::printf("end %u %u\n", tickets.next, tickets.finished);
}

template <bool kCausal>
void dispatch(int tile_m, int tile_n, int heads, int ctas, bool ragged, const std::vector<Sequence>& sequences) {
    if (tile_m == 192) return run<Tuning<192, 128, kCausal>>(heads, ctas, ragged, sequences);
    if (tile_n == 128) return run<Tuning<128, 128, kCausal>>(heads, ctas, ragged, sequences);
    return run<Tuning<128, 64, kCausal>>(heads, ctas, ragged, sequences);
}

}  // namespace

int main() {
    bool causal = false;
    bool ragged = false;
    int tile_m = 0;
    int tile_n = 0;
    int heads = 0;
    int ctas = 0;
    int count = 0;
    while (std::cin >> causal >> tile_m >> tile_n >> heads >> ctas >> ragged >> count) {
        std::vector<Sequence> sequences(count);
        for (Sequence& one : sequences) std::cin >> one.q_begin >> one.sq >> one.k_begin >> one.sk;
        (causal ? dispatch<true> : dispatch<false>)(tile_m, tile_n, heads, ctas, ragged, sequences);
    }
}
