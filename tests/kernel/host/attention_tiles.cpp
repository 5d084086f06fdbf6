// Hands out the tiles of batches with the headers of kernel/include/flashcore/attention.
//
// Input: one batch per line: causal tile_m tile_n heads ctas varlen sequences, then q_begin sq k_begin sk of each sequence. A
// varlen batch has them in the order of the sequence infos. Otherwise all sequences have the lengths of the first.
//
// Output per batch: "batch TILES", then a line per tile, with the CTAs in turn: "cta row head batch rows visible kv_batch
// first_key" and, for each consumer warpgroup, "work_kind n_blocks fully_masked unmasked". Last "end" and the tile counter.
#include <cstdio>
#include <iostream>
#include <vector>

#include "flashcore/attention/plan.h"
#include "flashcore/attention/warpgroup_work.h"

using namespace flashcore::attention;

namespace {

template <int kTileM, int kTileN, bool kCausal>
struct Tuning {
    static constexpr Config config{64,   DType::kFp16, kCausal, kTileM, kTileN, 2, 3, kTileM / kWarpgroupRows,
                                   true, false,        true,    true,   false,  false};
};

template <class Tuning>
void hand_out(const Params& params, int ctas) {
    constexpr Config kConfig = Tuning::config;
    gridDim.x = static_cast<unsigned>(ctas);
    std::vector<DynamicPersistentTileScheduler> schedulers;
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) schedulers.emplace_back(params);
    std::vector<bool> done(schedulers.size());
    for (bool more = true; more;) {
        more = false;
        for (size_t cta = 0; cta < schedulers.size(); ++cta) {
            const int index = done[cta] ? kNoTile : schedulers[cta].get_next();
            done[cta] = index == kNoTile;
            if (done[cta]) continue;
            schedulers[cta].prefetch_next();
            more = true;
            const ProducerTile load = tile_at<kConfig.causal>(params, index, kConfig.tile_m);
            const Tile& tile = load.tile;
            std::printf("%zu %d %d %d %d %d %d %d", cta, tile.row, tile.head, tile.batch, tile.rows, tile.visible, load.kv_batch,
                        load.first_key);
            for (int warpgroup = 0; warpgroup < kConfig.consumer_warpgroups; ++warpgroup) {
                const WarpgroupWork work = warpgroup_work<Tuning>(params, tile, warpgroup);
                std::printf(" %d %d %d %d", static_cast<int>(work_kind<Tuning>(params, tile, warpgroup)), work.n_blocks,
                            work.fully_masked, work.unmasked);
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
void run(int heads, int ctas, bool varlen, const std::vector<Sequence>& sequences) {
    constexpr Config kConfig = Tuning::config;
    const auto count = static_cast<int>(sequences.size());
    Params params{};
    TileCounter tile_counter{};
    std::vector<SequenceInfo> sequence_infos;
    params.heads = heads;
    params.score_sign = kUnchanged;
    params.tile_counter = &tile_counter;
    params.sq = varlen ? kBatchRows : sequences.front().sq;
    params.sk = varlen ? kBatchRows : sequences.front().sk;
    const Problem problem{DType::kFp16, kConfig.causal, 64, int64_t{count} * heads, params.sq, params.sk};
    params.schedule = plan(kConfig, problem, ctas, 0).schedule;
    int tiles = params.schedule.tiles;
    if (varlen) {
        tiles = 0;
        for (const Sequence& one : sequences) {
            const int row_tiles = (one.sq + kConfig.tile_m - 1) / kConfig.tile_m;
            const auto group = static_cast<int>(group_size(kConfig.causal, kConfig.head_dim, one.sk, heads));
            sequence_infos.push_back({tiles, row_tiles, group, one.q_begin + one.sq, one.k_begin + one.sk, one.sq, one.sk, 0});
            tiles += row_tiles * heads;
        }
        sequence_infos.push_back({tiles, 0, 0, 0, 0, 0, 0, 0});
        params.schedule.sequences = count;
        params.sequence_infos = sequence_infos.data();
    }
    std::printf("batch %d\n", tiles);
    hand_out<Tuning>(params, ctas);
    std::printf("end %u %u\n", tile_counter.next, tile_counter.finished_ctas);
}

template <bool kCausal>
void dispatch(int tile_m, int tile_n, int heads, int ctas, bool varlen, const std::vector<Sequence>& sequences) {
    if (tile_m == 192) return run<Tuning<192, 128, kCausal>>(heads, ctas, varlen, sequences);
    if (tile_n == 128) return run<Tuning<128, 128, kCausal>>(heads, ctas, varlen, sequences);
    return run<Tuning<128, 64, kCausal>>(heads, ctas, varlen, sequences);
}

}  // namespace

int main() {
    bool causal = false;
    bool varlen = false;
    int tile_m = 0;
    int tile_n = 0;
    int heads = 0;
    int ctas = 0;
    int count = 0;
    while (std::cin >> causal >> tile_m >> tile_n >> heads >> ctas >> varlen >> count) {
        std::vector<Sequence> sequences(count);
        for (Sequence& one : sequences) std::cin >> one.q_begin >> one.sq >> one.k_begin >> one.sk;
        (causal ? dispatch<true> : dispatch<false>)(tile_m, tile_n, heads, ctas, varlen, sequences);
    }
}
