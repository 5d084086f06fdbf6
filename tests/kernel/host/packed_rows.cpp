// Packed queries of every shape that decode serves: kernel/include/flashcore/decode/{plan.h,params.h,split_scheduler.h}. Output: one
// line per violation, and the number of shapes.
#include <cstdio>
#include <set>
#include <utility>

#include "flashcore/decode/plan.h"

using namespace flashcore::decode;

namespace {

void report(const char* what, const Config& config, const Problem& problem, int queries) {
    std::printf("%s: D=%d, heads %d / %d, %d of %d queries\n", what, config.head_dim, static_cast<int>(problem.heads),
                static_cast<int>(problem.kv_heads), queries, static_cast<int>(problem.sq));
}

// The rows of one sequence as the kernel derives them from a plan for at most problem.sq queries.
void check(const Config& config, const Problem& problem, const Plan& plan, int queries) {
    PackedRows rows = plan.rows;
    RaggedSplit split{};
    split.shape = rows.tile_shift_for(queries) << kQueryBits | queries;
    rows.sq = split.queries();
    rows.count = rows.sq * rows.group;
    rows.tile_shift = split.tile_shift();
    rows.per_work_tile = kRowTileRows << rows.tile_shift;
    if (split.queries() != queries) report("queries are lost", config, problem, queries);
    if (rows.tile_shift > plan.rows.tile_shift) report("more row tiles than the workspace holds", config, problem, queries);
    if (rows.tiles() > config.consumer_warps) report("a row tile without a warp", config, problem, queries);
    std::set<std::pair<int, int>> found;  // query and head of the work tile
    for (int row = 0; row < rows.per_work_tile; ++row) {
        if (!rows.exists(row)) continue;
        const int query = rows.query_of(rows.row_of(row));
        found.insert({query, rows.head_of(row) * rows.group + rows.row_of(row) - query * rows.group});
    }
    if (static_cast<int>(found.size()) != queries * rows.group * rows.heads) report("rows are missing", config, problem, queries);
    for (const auto& [query, head] : found) {
        if (query >= queries || head < 0 || head >= rows.group * rows.heads) report("a row outside", config, problem, queries);
    }
    if (rows.heads == 1 && rows.tile_shift > 0 && kRowTileRows << (rows.tile_shift - 1) >= rows.count)
        report("an empty half", config, problem, queries);
}

}  // namespace

int main() {
    int shapes = 0;
    for (const int head_dim : {64, 128, 256}) {
        Config config{};
        config.head_dim = head_dim;
        config.tile_keys = 8192 / head_dim;
        config.consumer_warps = head_dim == 256 ? 4 : 8;
        config.ragged = true;
        for (int kv_heads = 1; kv_heads <= 4; ++kv_heads) {
            for (int group = 1; group <= 128; ++group) {
                for (int most = 1; most <= 16; ++most) {
                    Problem problem{};
                    problem.head_dim = head_dim;
                    problem.batch = 3;
                    problem.heads = group * kv_heads;
                    problem.kv_heads = kv_heads;
                    problem.sq = most;
                    problem.capacity = 1000;
                    const Plan made = plan(config, problem, 132, 0);
                    if ((made.row_work_tiles > 1) != (group * most > kRowTileRows * config.consumer_warps))
                        report("the limit of rows", config, problem, most);
                    if (made.row_work_tiles > 1) continue;
                    for (int queries = 1; queries <= most; ++queries, ++shapes) check(config, problem, made, queries);
                }
            }
        }
    }
    std::printf("shapes %d\n", shapes);
}
