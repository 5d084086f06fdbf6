// The consumers of a deterministic launch (segments.h): the warps merge their sums after each segment, and fold them into those of the
// segments before. A fold delays the next tiles, so it has as few dependent steps as possible.
#pragma once

#include "flashcore/decode/consumer.cuh"
#include "flashcore/decode/segment_end.cuh"

namespace flashcore::decode {

template <class Tuning>
class SegmentMerge : public SegmentEnd<Tuning> {
    using Base = SegmentEnd<Tuning>;
    using Base::barrier, Base::kColumnParts, Base::kConfig, Base::kPairs, Base::partial_of;
    using Base::cta_, Base::lane_, Base::params_, Base::rows_, Base::shared_, Base::warp_, Base::work_;

public:
    using Base::Base;

    // Merges the sums of the warps, at most eight rows of each row tile at a time.
    __device__ __forceinline__ void run(const SoftmaxState<kConfig.head_dim>& state, int first_tile) const {
        const int segment = work_.places.segments.from(first_tile);
        const int halves = rows_.count > kMergeRows ? 2 : 1;
#pragma unroll 1
        for (int half = 0; half < halves; ++half) {
            barrier();  // all warps have added up what they left before
            if (half == 0) {
                leave<0>(state);
            } else {
                leave<1>(state);
            }
            barrier();
            add_up(half, segment);
        }
    }

private:
    // Leaves sums of this warp to the others. They are relative to its own max, so it need not know that of the others.
    template <int kHalf>
    __device__ __forceinline__ void leave(const SoftmaxState<kConfig.head_dim>& state) const {
        const float sum = sm90::quad_sum(state.row_sum[kHalf]);
        const int row_in_group = lane_ / sm90::kQuadLanes;
        if (!rows_.exists(this->work_tile_.first_row + rows_.tile_of(warp_) * kRowTileRows + kHalf * kMergeRows + row_in_group)) return;
        if (lane_ % sm90::kQuadLanes == 0) shared_.statistics[warp_][row_in_group] = {state.row_max[kHalf], sum};
        float* const row = shared_.sums[warp_][row_in_group] + lane_ % sm90::kQuadLanes * 2;
#pragma unroll
        for (int i = 0; i < kConfig.head_dim / sm90::kMmaN; ++i) {
            const float* output = state.output[i] + 2 * kHalf;
            *reinterpret_cast<float2*>(row + i * sm90::kMmaN) = {output[0], output[1]};
        }
    }

    // Each warp takes 64 columns of a row at a time.
    __device__ __forceinline__ void add_up(int half, int segment) const {
        const int shift = row_shift(half);
#pragma unroll 1
        for (int item = warp_;; item += kConfig.consumer_warps) {
            const int row_tile = item / kColumnParts >> shift;
            if (row_tile >= rows_.tiles()) break;
            const int row = row_tile * kRowTileRows + half * kMergeRows + (item / kColumnParts & ((1 << shift) - 1));
            if (!rows_.exists(this->work_tile_.first_row + row)) continue;
            const int pair = item % kColumnParts * sm90::kWarpThreads + lane_;
            keep(row, pair, segment, combine_warps(row, pair));
        }
    }

    // Log2 of the rows of a row tile that the warps take in turn. With several heads, the few rows of each would leave warps idle.
    __device__ __forceinline__ int row_shift(int half) const {
        if (rows_.heads == 1) return shift_of(kMergeRows);
        return sm90::kWarpThreads - __clz(min_int(rows_.count - half * kMergeRows, kMergeRows) - 1);
    }

    // Adds in the order of the warps of this row tile. Each lane computes the weight of one of them.
    __device__ __forceinline__ ColumnPair combine_warps(int row, int pair) const {
        const int row_tile = row / kRowTileRows;
        const int lane_warp = lane_ % kConfig.consumer_warps;
        const float2 own = rows_.tile_of(lane_warp) == row_tile ? shared_.statistics[lane_warp][row % kMergeRows]
                                                                : float2{sm90::minus_infinity(), 0.0f};
        float row_max = own.x;
#pragma unroll
        for (int i = kConfig.consumer_warps / 2; i > 0; i /= 2) row_max = fmaxf(row_max, __shfl_xor_sync(sm90::kFullWarpMask, row_max, i));
        const float own_weight = this->weight(own.x, finite_max(row_max));
        float sum = own.y * own_weight;
#pragma unroll
        for (int i = kConfig.consumer_warps / 2; i > 0; i /= 2) sum += __shfl_xor_sync(sm90::kFullWarpMask, sum, i);
        ColumnPair columns = {{row_max, sum}, {0.0f, 0.0f}};
#pragma unroll
        for (int warp = 0; warp < kConfig.consumer_warps; ++warp) {
            const float factor = __shfl_sync(sm90::kFullWarpMask, own_weight, warp);
            if (rows_.tile_of(warp) != row_tile) continue;
            const float2 sums = *reinterpret_cast<const float2*>(shared_.sums[warp][row % kMergeRows] + pair * 2);
            columns.sums.x = fmaf(sums.x, factor, columns.sums.x);
            columns.sums.y = fmaf(sums.y, factor, columns.sums.y);
        }
        return columns;
    }

    // A segment's sums, or the first segments' folded.
    __device__ __forceinline__ void keep(int row, int pair, int segment, const ColumnPair& columns) const {
        if (work_.first > 0) {
            save(partial_of(cta_ * work_.places.slots + 1 + segment - work_.first), row, pair, columns);
            return;
        }
        float2* const folded = folded_rows();
        const ColumnPair total = segment == 0 ? columns : fold(read(folded, row, pair), columns);
        if (segment + 1 == work_.places.segments.count) {
            this->store(row, pair, total);
        } else {
            save(segment + 1 == work_.last ? partial_of(cta_ * work_.places.slots) : folded, row, pair, total);
        }
    }

    // This CTA's folded rows. Where shared memory has no room, they are in the place of its partial result.
    __device__ __forceinline__ float2* folded_rows() const {
        return rows_.per_work_tile <= folded_rows_of(kConfig) ? folded_in(shared_) : partial_of(cta_ * work_.places.slots);
    }

    // Each part of a row has a max and a sum of its own, because another warp folds it. The warp that wrote them reads them.
    __device__ __forceinline__ void save(float2* partial, int row, int pair, const ColumnPair& columns) const {
        __syncwarp();  // all lanes have read the statistics
        if (lane_ == 0) partial[row * kColumnParts + pair / sm90::kWarpThreads] = columns.statistics;
        partial[rows_.per_work_tile * kColumnParts + row * kPairs + pair] = columns.sums;
        __syncwarp();
    }
    __device__ __forceinline__ ColumnPair read(const float2* partial, int row, int pair) const {
        return {partial[row * kColumnParts + pair / sm90::kWarpThreads],
                partial[rows_.per_work_tile * kColumnParts + row * kPairs + pair]};
    }

    __device__ __forceinline__ ColumnPair fold(const ColumnPair& before, const ColumnPair& next) const {
        const float row_max = fmaxf(before.statistics.x, next.statistics.x);
        return decode::fold(before, next, this->weight(before.statistics.x, finite_max(row_max)),
                            this->weight(next.statistics.x, finite_max(row_max)), row_max);
    }

};

template <class Tuning>
class SegmentConsumer : Consumer<Tuning> {
    using Base = Consumer<Tuning>;
    using Base::params_, Base::shared_, Base::warp_, Base::lane_;

public:
    using Base::Base;

    __device__ __forceinline__ void run() {
        for (Split split = this->pop_split(); split.work_tile != kNoWorkTile; split = this->pop_split()) {
            this->load_query(split);
            prefetch_counter(split);
            Split part = split;
#pragma unroll 1
            for (;;) {
                part.last = min_int(part.first + segment_tiles(split), split.last);
                this->attend(part);
                merge(split).run(this->state_, part.first);
                if (part.last == split.last) break;
                part.first = part.last;
            }
            merge(split).finish();
        }
    }

private:
    // Computed again where they are used, because registers are short in the loop over the keys.
    __device__ __forceinline__ int segment_tiles(const Split& split) const {
        return 1 << segments_of(params_.split_policy, tiles_of(params_.split_policy, split.keys)).shift;
    }
    __device__ __forceinline__ SegmentMerge<Tuning> merge(const Split& split) const { return {params_, shared_, split, warp_, lane_}; }

    __device__ __forceinline__ void prefetch_counter(const Split& split) const {
        if (SegmentWork(params_.split_policy, split).is_whole() || warp_ != 0 || lane_ != 0) return;
        ptx::prefetch_l2(params_.counters + shared_.cta_ranges.owner(split.origin));
    }
};

}  // namespace flashcore::decode
