// Lists the tiles of ragged batches whose heads share tiles, with the headers of kernel/include/flashcore/attention.
//
// Input: one batch per line: causal warpgroups heads kv_heads share sequences, then sq sk of each sequence, whose rows are behind
// each other. Output per batch: "batch TILES", then a line per tile: "kv_head heads kv_batch" and, for each consumer warpgroup,
// "row head rows visible work_kind n_blocks fully_masked unmasked".
#include <cstdio>
#include <iostream>
#include <vector>

#include "flashcore/attention/plan.h"
#include "flashcore/attention/shared_tile.h"
#include "flashcore/attention/warpgroup_work.h"

using namespace flashcore::attention;

namespace {

template <int kWarpgroups, bool kCausal>
struct Tuning {
    static constexpr Config config{64,   DType::kFp16, kCausal, kWarpgroups * kWarpgroupRows, 128, 2, 3, kWarpgroups,
                                   true, false,        true,    true,                         false, true};
    static_assert(can_share_heads(config));
};

struct Batch {
    int heads;
    int kv_heads;
    bool share;
    std::vector<std::pair<int, int>> sequences;
};

// What varlen_prepare.cuh makes of a batch.
template <class Tuning>
std::vector<SequenceInfo> lay_out(const Batch& batch) {
    constexpr Config kConfig = Tuning::config;
    const int of_short_rows = batch.kv_heads * split_heads(batch.heads / batch.kv_heads, kConfig.consumer_warpgroups).tiles;
    std::vector<SequenceInfo> infos;
    int tiles = 0;
    int row = 0;
    int key = 0;
    for (const auto& [sq, sk] : batch.sequences) {
        const int row_tiles = (sq + kConfig.tile_m - 1) / kConfig.tile_m;
        const auto group = static_cast<int>(group_size(kConfig.causal, kConfig.head_dim, sk, batch.heads));
        const bool shares = batch.share && row_tiles > 0 && sq - (row_tiles - 1) * kConfig.tile_m <= kWarpgroupRows;
        infos.push_back({tiles, row_tiles, group, row += sq, key += sk, sq, sk, shares ? of_short_rows : 0});
        tiles += shares ? (row_tiles - 1) * batch.heads + of_short_rows : row_tiles * batch.heads;
    }
    infos.push_back({tiles, 0, 0, 0, 0, 0, 0, 0});
    return infos;
}

template <class Tuning>
void list(const Batch& batch) {
    constexpr Config kConfig = Tuning::config;
    const std::vector<SequenceInfo> infos = lay_out<Tuning>(batch);
    Params params{};
    params.heads = batch.heads;
    params.heads_per_kv_head = batch.heads / batch.kv_heads;
    params.score_sign = kUnchanged;
    params.sq = params.sk = kBatchRows;
    params.schedule.sequences = static_cast<int>(batch.sequences.size());
    params.sequence_infos = infos.data();
    std::printf("batch %d\n", infos.back().first_tile);
    for (int index = 0; index < infos.back().first_tile; ++index) {
        const SharedTile shared = shared_tile_at<Tuning>(params, index);
        std::printf("%d %d %d", quotient(shared.tile.head, params.heads_per_kv_head), shared.heads, shared.kv_batch);
        for (int warpgroup = 0; warpgroup < kConfig.consumer_warpgroups; ++warpgroup) {
            const Tile tile = tile_of_head<kConfig.causal>(shared.tile, warpgroup < shared.heads ? warpgroup : 0);
            const WarpgroupWork work = warpgroup_work<Tuning>(params, tile, warpgroup);
            std::printf(" %d %d %d %d %d %d %d %d", tile.batch - kBatchRows + tile.row + warpgroup * kWarpgroupRows, tile.head,
                        tile.rows - warpgroup * kWarpgroupRows, tile.visible + (kConfig.causal ? warpgroup * kWarpgroupRows : 0),
                        static_cast<int>(work_kind<Tuning>(params, tile, warpgroup)), work.n_blocks, work.fully_masked, work.unmasked);
        }
        std::printf("\n");
    }
}

template <bool kCausal>
void dispatch(int warpgroups, const Batch& batch) {
    return warpgroups == 3 ? list<Tuning<3, kCausal>>(batch) : list<Tuning<2, kCausal>>(batch);
}

}  // namespace

int main() {
    bool causal = false;
    int warpgroups = 0;
    int count = 0;
    Batch batch{};
    while (std::cin >> causal >> warpgroups >> batch.heads >> batch.kv_heads >> batch.share >> count) {
        batch.sequences.resize(count);
        for (auto& [sq, sk] : batch.sequences) std::cin >> sq >> sk;
        (causal ? dispatch<true> : dispatch<false>)(warpgroups, batch);
    }
}
