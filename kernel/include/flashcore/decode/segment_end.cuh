// The end of a work tile of a deterministic launch (segments.h) that several CTAs share: the last of them folds the results of all.
#pragma once

#include "flashcore/decode/merge.cuh"
#include "flashcore/decode/segments.h"

namespace flashcore::decode {

// Max, sum and two sums of columns of the keys so far.
__device__ __forceinline__ ColumnPair fold(const ColumnPair& before, const ColumnPair& next, float before_weight, float next_weight,
                                           float row_max) {
    return {{row_max, fmaf(next.statistics.y, next_weight, before.statistics.y * before_weight)},
            {fmaf(next.sums.x, next_weight, before.sums.x * before_weight),
             fmaf(next.sums.y, next_weight, before.sums.y * before_weight)}};
}

// The segments of a work tile that one CTA processes.
struct SegmentWork {
    SegmentPlaces places;
    int first;  // segment of this CTA
    int last;   // one past the last

    __device__ __forceinline__ SegmentWork(const SplitPolicy& split_policy, const Split& split)
        : places{segments_of(split_policy, tiles_of(split_policy, split.keys)), split.origin, split_policy.max_splits},
          first(places.segments.from(split.first)),
          last(places.segments.from(split.last)) {}
    __device__ __forceinline__ bool is_whole() const { return first == 0 && last == places.segments.count; }
};

template <class Tuning>
class SegmentEnd : protected Merge<Tuning> {
    using Base = Merge<Tuning>;

protected:
    using Base::barrier, Base::kColumnParts, Base::kConfig, Base::kPairs;
    using Base::params_, Base::shared_, Base::rows_, Base::warp_, Base::lane_;

public:
    __device__ __forceinline__ SegmentEnd(const Params& params, SharedStorage<Tuning>& shared, const Split& split, int warp, int lane)
        : Base(params, shared, split, {}, warp, lane), cta_(split.cta), work_(params.split_policy, split) {}

    // The last CTA that finishes a work tile folds the results of all.
    __device__ __forceinline__ void finish() const {
        if (work_.is_whole() || !is_last()) return;
        const int items = rows_.per_work_tile * kColumnParts;
#pragma unroll 1
        for (int item = warp_; item < items; item += kConfig.consumer_warps) {
            const int row = item / kColumnParts;
            if (!rows_.exists(this->work_tile_.first_row + row)) continue;
            const int pair = item % kColumnParts * sm90::kWarpThreads + lane_;
            this->store(row, pair, fold_partials(row, pair));
        }
    }

protected:
    __device__ __forceinline__ float2* partial_of(int place) const {
        return reinterpret_cast<float2*>(params_.partials) +
               static_cast<int64_t>(place) * rows_.per_work_tile * (kColumnParts + kPairs);
    }

    int cta_;
    SegmentWork work_;

private:
    // Whether this CTA finishes the work tile. Counts segments. Resets the counter for the next launch.
    __device__ __forceinline__ bool is_last() const {
        const unsigned own = work_.last - work_.first;
        __threadfence();
        barrier();
        if (warp_ == 0 && lane_ == 0) {
            unsigned* const counter = params_.counters + shared_.cta_ranges.owner(work_.places.origin);
            shared_.finished_splits = atomicAdd(counter, own) + own;
            if (shared_.finished_splits == work_.places.segments.count) *counter = 0;
            __threadfence();
        }
        barrier();
        return shared_.finished_splits == work_.places.segments.count;
    }

    // Folds in the order of the segments. Each lane loads the statistics of one of 32 segments, and computes the weights of its step:
    // the running max before it is exact in any order. So a step is two dependent operations.
    __device__ __forceinline__ ColumnPair fold_partials(int row, int pair) const {
        const EvenPartition& cta_ranges = shared_.cta_ranges;
        const SegmentPlaces& places = work_.places;
        const int statistics = row * kColumnParts + pair / sm90::kWarpThreads;
        const int sums = rows_.per_work_tile * kColumnParts + row * kPairs + pair;
        const float2* const folded = partial_of(places.folded_place(cta_ranges));
        ColumnPair total = {__ldcg(folded + statistics), __ldcg(folded + sums)};
#pragma unroll 1
        for (int begin = places.folded_count(cta_ranges); begin < places.segments.count; begin += sm90::kWarpThreads) {
            const int count = min_int(places.segments.count - begin, sm90::kWarpThreads);
            const float2* const partial = partial_of(places.place(cta_ranges, begin + min_int(lane_, count - 1)));
            const float2 own = __ldcg(partial + statistics);
            Group even = load(partial, sums, 0, count);
            Group odd = load(partial, sums, kGroup, count);
            const float row_max = running_max(fmaxf(total.statistics.x, own.x));
            const float above = __shfl_up_sync(sm90::kFullWarpMask, row_max, 1);
            const float before = this->weight(lane_ == 0 ? total.statistics.x : above, finite_max(row_max));
            const float next = this->weight(own.x, finite_max(row_max));
            total.statistics.x = __shfl_sync(sm90::kFullWarpMask, row_max, count - 1);
#pragma unroll 1
            for (int first = 0; first < count; first += 2 * kGroup) {
                const Step step = {own.y, before, next};
                fold_group(total, even, step, first, count);
                even = load(partial, sums, first + 2 * kGroup, count);
                fold_group(total, odd, step, first + kGroup, count);
                odd = load(partial, sums, first + 3 * kGroup, count);
            }
        }
        return total;
    }

    // Sums of some segments in order. Two groups are on their way at a time, and the code is short: it runs once, and comes from memory.
    static constexpr int kGroup = 8;
    struct Group {
        float2 sums[kGroup];
    };
    // Sum and weights of a segment. Each lane has those of another one.
    struct Step {
        float sum, before, next;
    };

    // Each lane has the address of another segment's result.
    __device__ __forceinline__ Group load(const float2* partial, int sums, int first, int count) const {
        Group group;
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            const auto address = __shfl_sync(sm90::kFullWarpMask, reinterpret_cast<unsigned long long>(partial), first + i);
            group.sums[i] = first + i < count ? __ldcg(reinterpret_cast<const float2*>(address) + sums) : float2{0.0f, 0.0f};
        }
        __syncwarp();  // the compiler moves no load behind it, to where its value is waited for
        return group;
    }

    // Without a branch between the steps: the compiler would move each load behind it, to where it is waited for.
    __device__ __forceinline__ void fold_group(ColumnPair& total, const Group& group, const Step& own, int first, int count) const {
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            const ColumnPair segment = {{0.0f, __shfl_sync(sm90::kFullWarpMask, own.sum, first + i)}, group.sums[i]};
            const ColumnPair folded = decode::fold(total, segment, __shfl_sync(sm90::kFullWarpMask, own.before, first + i),
                                                   __shfl_sync(sm90::kFullWarpMask, own.next, first + i), total.statistics.x);
            const bool exists = first + i < count;
            total.statistics.y = exists ? folded.statistics.y : total.statistics.y;
            total.sums.x = exists ? folded.sums.x : total.sums.x;
            total.sums.y = exists ? folded.sums.y : total.sums.y;
        }
    }

    // The largest value of the lanes up to this one.
    __device__ __forceinline__ float running_max(float value) const {
#pragma unroll
        for (int distance = 1; distance < sm90::kWarpThreads; distance *= 2) {
            const float below = __shfl_up_sync(sm90::kFullWarpMask, value, distance);
            if (lane_ >= distance) value = fmaxf(value, below);
        }
        return value;
    }
};

}  // namespace flashcore::decode
