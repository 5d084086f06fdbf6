// Asks kernel/include/flashcore/decode/plan.h as it is what the host decides.
// In:  one problem a line: head_dim tile_keys consumer_warps batch heads kv_heads sq room deterministic splits multiprocessors
// max_ctas. Out: for each "ctas gap row_units rows_of_a_unit pieces most counters places", places being what the workspace has
// room for.
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
        const int64_t bytes = decode::piece_floats(config, plan.rows) * static_cast<int64_t>(sizeof(float));
        std::printf("%d %d %d %d %d %d %lld %lld\n", plan.ctas, plan.cut.gap, plan.row_units, plan.rows.per_unit, plan.cut.pieces,
                    plan.cut.most, static_cast<long long>(plan.counters),
                    static_cast<long long>((plan.workspace_bytes - decode::kCounterBytes) / bytes));
    }
}
