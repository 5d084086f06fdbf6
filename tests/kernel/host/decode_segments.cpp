// The schedule of deterministic decode: kernel/include/flashcore/decode/{plan.h,segments.h}.
//
// check SEED CASES: random launches. Output: one line per violation, and the number of work tiles that several CTAs share.
// fold SEED CASES DEFECT: sums of random segments in float, in the order of the schedule, for one sequence in many launches. Output: how
// many launches have other bits than the first, and how many there are.
// load: lines "head_dim batch heads kv_heads ctas_limit keys..." from the input. Output: CTAs, tiles, most tiles of a CTA with segments,
// the same at CTA ranges, ends of segments and work tiles of the CTA that has most, partial results, and most partial results of a work
// tile.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "flashcore/decode/plan.h"

using namespace flashcore;
using namespace flashcore::decode;

namespace {

using Random = std::mt19937;

int pick(Random& random, int low, int high) { return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)); }

Config config_of(int head_dim) {
    const int stages = head_dim == 64 ? 6 : 5;
    return {head_dim, DType::kBf16, 8192 / head_dim, stages, head_dim == 256 ? 4 : 8, false, false, false, false, true};
}

struct Launch {
    Plan plan;
    std::vector<int> keys;
    std::vector<int> origins{0};  // of a work tile of each sequence

    Launch(const Config& config, Problem problem, int multiprocessors, std::vector<int> lengths)
        : plan(decode::plan(config, problem, multiprocessors, 0)), keys(std::move(lengths)) {
        for (const int one : keys) origins.push_back(origins.back() + length_of<false>(plan.split_policy, one));
    }
    int row() const { return origins.back(); }
    EvenPartition ranges() const { return {plan.split_policy.work_tiles * row(), plan.ctas}; }

    // The splits of each CTA, as its producer finds them.
    template <class Iterator>
    std::vector<std::vector<Split>> splits() const {
        const auto sequence_keys = [this](int sequence) { return keys.at(static_cast<size_t>(sequence)); };
        using Of = typename Iterator::template Of<decltype(sequence_keys)>;
        std::vector<std::vector<Split>> found(static_cast<size_t>(plan.ctas));
        for (int cta = 0; cta < plan.ctas; ++cta) {
            const int tile = ranges().begin(cta);
            if (tile == ranges().begin(cta + 1)) continue;
            int sequence = 0;
            while (origins[static_cast<size_t>(sequence) + 1] <= tile % row()) ++sequence;
            const WorkPosition position{sequence, tile / row(), tile / row() * row() + origins[static_cast<size_t>(sequence)]};
            const EvenPartition cta_ranges = ranges();
            Of splits(plan.split_policy, cta_ranges, cta, position, sequence_keys);
            for (Split split; splits.next(split);) found[static_cast<size_t>(cta)].push_back(split);
        }
        return found;
    }
};

struct BySegments {
    template <class Keys>
    using Of = SegmentIterator<Keys>;
};
struct ByRanges {
    template <class Keys>
    using Of = SplitIterator<Keys, false>;
};

Problem problem_of(int head_dim, int batch, int heads, int kv_heads, int capacity) {
    return {DType::kBf16, head_dim, batch, heads, kv_heads, 1, capacity, true, true, 0};
}

int random_length(Random& random, int capacity) {
    switch (pick(random, 0, 4)) {
        case 0: return pick(random, 0, 2);
        case 1: return pick(random, 0, std::min(capacity, 700));
        case 2: return capacity;
        case 3: return std::min(capacity, pick(random, 1, 64) * 256 + pick(random, -1, 1));
        default: return pick(random, 0, capacity);
    }
}

Launch random_launch(Random& random, const Config& config, int first_length) {
    const int kv_heads = pick(random, 1, 9), group = pick(random, 1, 8);
    std::vector<int> keys{first_length};
    int capacity = std::max(first_length, 1 << pick(random, 4, 17));
    for (int i = pick(random, 0, 12); i > 0; --i) keys.push_back(random_length(random, capacity));
    std::shuffle(keys.begin() + 1, keys.end(), random);
    const Problem problem = problem_of(config.head_dim, static_cast<int>(keys.size()), kv_heads * group, kv_heads, capacity);
    return {config, problem, pick(random, 0, 2) == 0 ? 132 : pick(random, 1, 148), keys};
}

using WorkTileKey = std::pair<int, int>;

int check(const Launch& launch, const char* what) {
    const SplitPolicy& policy = launch.plan.split_policy;
    const EvenPartition ranges = launch.ranges();
    std::map<WorkTileKey, std::vector<Split>> work_tiles;
    std::set<int> counters, places;
    int shared = 0;
    const auto report = [&](bool bad, const char* text) { bad ? void(std::printf("%s: %s\n", what, text)) : void(); };
    for (const auto& splits : launch.splits<BySegments>()) {
        for (const Split& split : splits) work_tiles[{split.work_tile, split.sequence}].push_back(split);
    }
    report(work_tiles.size() != static_cast<size_t>(policy.work_tiles) * launch.keys.size(), "a work tile is missing");
    for (const auto& [key, splits] : work_tiles) {
        const int tiles = tiles_of(policy, launch.keys[static_cast<size_t>(key.second)]);
        const Segments segments = segments_of(policy, tiles);
        report(segments.count > most_segments(policy, tiles) || segments.count > kMaxSegments, "more segments than the host expects");
        int next = 0;
        for (const Split& split : splits) {
            report(split.first != next || split.first >= split.last, "tiles are missing or out of order");
            report(split.first != segments.begin(segments.from(split.first)), "a split begins inside a segment");
            next = split.last;
        }
        report(next != tiles, "last tiles are missing");
        if (splits.size() == 1) continue;
        ++shared;
        const SegmentPlaces where{segments, splits[0].origin, policy.max_splits};
        report(!counters.insert(ranges.owner(where.origin)).second, "two work tiles share a counter");
        report(ranges.owner(where.origin) >= launch.plan.counters, "a counter is outside");
        report(where.folded_place(ranges) != splits[0].cta * policy.max_splits, "the folded result is elsewhere");
        report(where.folded_count(ranges) != segments.from(splits[0].last), "the folded result has other segments");
        places.insert(where.folded_place(ranges));
        for (size_t i = 1; i < splits.size(); ++i) {
            for (int segment = segments.from(splits[i].first); segment < segments.from(splits[i].last); ++segment) {
                const int place = splits[i].cta * policy.max_splits + 1 + segment - segments.from(splits[i].first);
                report(where.place(ranges, segment) != place, "a segment is elsewhere");
                report(!places.insert(place).second, "two segments share a place");
                report(place >= (splits[i].cta + 1) * policy.max_splits, "a segment is in the places of another CTA");
            }
        }
    }
    return shared;
}

struct Sum {
    float max, sum, value;
};

Sum fold(const Sum& before, const Sum& next) {
    const float max = std::max(before.max, next.max);
    const float a = std::exp2(before.max - max), b = std::exp2(next.max - max);
    return {max, std::fma(next.sum, b, before.sum * a), std::fma(next.value, b, before.value * a)};
}

// The first sequence's sums for its first work tile, as its CTAs and the last of them compute them.
Sum fold_launch(const Launch& launch, const std::vector<Sum>& sums, const std::string& defect) {
    std::vector<std::vector<Sum>> partials;
    for (const auto& splits : launch.splits<BySegments>()) {
        for (const Split& split : splits) {
            if (split.sequence != 0 || split.work_tile != 0) continue;
            const Segments segments = segments_of(launch.plan.split_policy, tiles_of(launch.plan.split_policy, split.keys));
            std::vector<Sum> own;
            for (int i = segments.from(split.first); i < segments.from(split.last); ++i) {
                const bool folds = !own.empty() && (split.first == 0 || defect == "each-cta-folds");
                folds ? void(own.back() = fold(own.back(), sums[static_cast<size_t>(i)])) : own.push_back(sums[static_cast<size_t>(i)]);
            }
            partials.push_back(own);
        }
    }
    if (defect == "last-first") std::reverse(partials.begin(), partials.end());
    Sum total = partials[0][0];
    for (size_t i = 0; i < partials.size(); ++i) {
        for (size_t j = i == 0 ? 1 : 0; j < partials[i].size(); ++j) total = fold(total, partials[i][j]);
    }
    return total;
}

void fold_all(Random& random, int cases, const std::string& defect) {
    int different = 0;
    for (int i = 0; i < cases / 20; ++i) {
        const Config config = config_of(64 << pick(random, 0, 2));
        const int length = pick(random, 600, 40000);
        std::vector<Sum> sums(kMaxSegments);
        for (Sum& sum : sums)
            sum = {pick(random, -4000, 4000) / 1000.0f, pick(random, 1, 1 << 20) / 1024.0f, pick(random, -(1 << 20), 1 << 20) / 1024.0f};
        Sum first{};
        for (int j = 0; j < 20; ++j) {
            Launch launch = random_launch(random, config, length);
            while (launch.plan.rows.heads > 1) launch = random_launch(random, config, length);  // has other tiles
            const Sum total = fold_launch(launch, sums, defect);
            if (j == 0) first = total;
            different += std::memcmp(&total, &first, sizeof(Sum)) != 0;
        }
    }
    std::printf("%d %d\n", different, cases / 20 * 20);
}

void load(const std::string& line) {
    std::istringstream words(line);
    int head_dim = 0, batch = 0, heads = 0, kv_heads = 0, limit = 0, capacity = 0;
    if (!(words >> head_dim >> batch >> heads >> kv_heads >> limit)) return;
    std::vector<int> keys(static_cast<size_t>(batch));
    for (int& one : keys) words >> one;
    for (const int one : keys) capacity = std::max(capacity, one);
    Problem problem = problem_of(head_dim, batch, heads, kv_heads, capacity);
    const Launch launch(config_of(head_dim), problem, limit, keys);
    Config plain = config_of(head_dim);
    plain.deterministic = problem.deterministic = false;
    const Launch ranged(plain, problem, limit, keys);
    const auto most = [](const std::vector<std::vector<Split>>& ctas) {
        int found = 0;
        for (const auto& splits : ctas) {
            int tiles = 0;
            for (const Split& split : splits) tiles += split.last - split.first;
            found = std::max(found, tiles);
        }
        return found;
    };
    const SplitPolicy& policy = launch.plan.split_policy;
    int segments = 0, ends = 0, partials = 0, most_partials = 0;
    std::map<WorkTileKey, int> of_work_tile;
    for (const auto& splits : launch.splits<BySegments>()) {
        int own = 0;
        for (const Split& split : splits) {
            const Segments all = segments_of(policy, tiles_of(policy, split.keys));
            const int count = all.from(split.last) - all.from(split.first);
            own += count;
            if (split.first == 0 && all.from(split.last) == all.count) continue;
            const int stored = split.first == 0 ? 1 : count;
            partials += stored;
            most_partials = std::max(most_partials, of_work_tile[{split.work_tile, split.sequence}] += stored);
        }
        segments = std::max(segments, own);
        ends = std::max(ends, static_cast<int>(splits.size()));
    }
    std::printf("%d %d %d %d %d %d %d %d %lld\n", launch.plan.ctas, policy.work_tiles * launch.row(), most(launch.splits<BySegments>()),
                most(ranged.splits<ByRanges>()), segments, ends, partials, most_partials,
                static_cast<long long>(launch.plan.workspace_bytes));
}

}  // namespace

int main(int count, char** arguments) {
    const std::string what = count > 1 ? arguments[1] : "";
    if (what == "load") {
        for (std::string line; std::getline(std::cin, line);) load(line);
        return 0;
    }
    if (count < 4) return 2;
    Random random(static_cast<unsigned>(std::atoi(arguments[2])));
    const int cases = std::atoi(arguments[3]);
    if (what == "fold") {
        fold_all(random, cases, count > 4 ? arguments[4] : "");
        return 0;
    }
    int shared = 0;
    for (int i = 0; i < cases; ++i) {
        const Config config = config_of(64 << pick(random, 0, 2));
        shared += check(random_launch(random, config, random_length(random, 1 << pick(random, 4, 17))), std::to_string(i).c_str());
    }
    std::printf("%d\n", shared);
    return 0;
}
