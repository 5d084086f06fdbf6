// Calls kernel/include/flashcore/decode/plan.h.
//
// Input: one problem per line: head_dim tile_keys consumer_warps batch heads kv_heads sq capacity deterministic splits
// multiprocessors max_ctas.
//
// Output per problem: ctas gap row_work_tiles rows_per_work_tile splits max_splits counters partials. `partials` is the number of
// partial results that fit in the workspace.
#include <cstdio>
#include <iostream>

#include "flashcore/decode/plan.h"

using namespace flashcore;

int main() {
    int head_dim = 0, tile_keys = 0, warps = 0, splits = 0, multiprocessors = 0, max_ctas = 0;
    int64_t batch = 0, heads = 0, kv_heads = 0, sq = 0, room = 0;
    bool deterministic = false;
    while (std::cin >> head_dim >> tile_keys >> warps >> batch >> heads >> kv_heads >> sq >> room >> deterministic >> splits >>
           multiprocessors >> max_ctas) {
        const decode::Config config{head_dim, DType::kFp16, tile_keys, 5, warps};
        const decode::Problem problem{DType::kFp16, head_dim, batch, heads, kv_heads, sq, room, false, deterministic, splits};
        const decode::Plan plan = decode::plan(config, problem, multiprocessors, max_ctas);
        const int64_t bytes = decode::partial_floats(config, plan.rows) * static_cast<int64_t>(sizeof(float));
        std::printf("%d %d %d %d %d %d %lld %lld\n", plan.ctas, plan.split_policy.gap, plan.row_work_tiles,
                    plan.rows.per_work_tile, plan.split_policy.splits, plan.split_policy.max_splits,
                    static_cast<long long>(plan.counters),
                    static_cast<long long>((plan.workspace_bytes - decode::kCounterBytes) / bytes));
    }
}
