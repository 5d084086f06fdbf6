// How the last CTA of a packed launch adds up the splits of a work tile. Part of merge.cuh.
#pragma once

#include "flashcore/decode/merge.cuh"

namespace flashcore::decode {

// Adds the splits of a packed launch up, several rows at a time: a busy memory system answers late, and many rows wait for it together.
template <class Tuning>
__device__ __forceinline__ void Merge<Tuning>::add_up_splits() const {
    constexpr int kItems = 5;  // 40 rows of 128 columns are 80 items of eight warps
    const int items = (rows_.heads == 1 ? rows_.count : rows_.per_work_tile) * kColumnParts;
#pragma unroll 1
    for (int first = warp_; first < items; first += kItems * kConfig.consumer_warps) {
        ColumnPair columns[kItems];
        combine_splits(columns, first, items);
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            const int item = first + i * kConfig.consumer_warps;
            const int row = item / kColumnParts;
            if (item < items && rows_.exists(row)) store(row, item % kColumnParts * sm90::kWarpThreads + lane_, columns[i]);
        }
    }
}

// Adds in the order of the splits, of each of which a lane loads the statistics.
template <class Tuning>
template <int kItems>
__device__ __forceinline__ void Merge<Tuning>::combine_splits(ColumnPair (&columns)[kItems], int first, int items) const {
    constexpr int kBatch = 4;
#pragma unroll
    for (int i = 0; i < kItems; ++i) columns[i] = {{sm90::minus_infinity(), 0.0f}, {0.0f, 0.0f}};
#pragma unroll 1
    for (int begin = 0; begin < fixup_.split_count; begin += kBatch) {
        const float2* const partial = partial_of(begin);
        const int count = min_int(fixup_.split_count - begin, kBatch);
        float2 statistics[kItems], values[kItems][kBatch];
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            const int item = first + i * kConfig.consumer_warps;
            const int row = item / kColumnParts;
            const bool exists = item < items && rows_.exists(row);
            const int pair = item % kColumnParts * sm90::kWarpThreads + lane_;
            const float2* const sums = partial + rows_.per_work_tile + row * kPairs + pair;
            statistics[i] = exists && lane_ < count ? __ldcg(partial + row + lane_ * partial_pairs())
                                                    : float2{sm90::minus_infinity(), 0.0f};
#pragma unroll
            for (int split = 0; split < kBatch; ++split) {
                values[i][split] = exists && split < count ? __ldcg(sums + split * partial_pairs()) : float2{0.0f, 0.0f};
            }
        }
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            ColumnPair& total = columns[i];
            const float row_max = fmaxf(total.statistics.x, sm90::warp_max(statistics[i].x));
            const float before = weight(total.statistics.x, finite_max(row_max));
            const float factor = weight(statistics[i].x, finite_max(row_max));
            total = {{row_max, total.statistics.y * before + sm90::warp_sum(statistics[i].y * factor)},
                    {total.sums.x * before, total.sums.y * before}};
#pragma unroll
            for (int split = 0; split < kBatch; ++split) {
                const float split_factor = __shfl_sync(sm90::kFullWarpMask, factor, split);
                total.sums.x = fmaf(values[i][split].x, split_factor, total.sums.x);
                total.sums.y = fmaf(values[i][split].y, split_factor, total.sums.y);
            }
        }
    }
}

}  // namespace flashcore::decode
