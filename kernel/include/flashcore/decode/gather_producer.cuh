// The producer warps of tiles whose keys are copied one by one. All follow the same splits, and share the rows of each tile.
#pragma once

#include "flashcore/decode/gather.cuh"
#include "flashcore/decode/producer.cuh"

namespace flashcore::decode {

constexpr int kTilesAhead = 8;  // how far the page table is prefetched. A ring has five or six

template <class Tuning>
class GatherProducer : public Producer<Tuning> {
public:
    using Base = Producer<Tuning>;
    using Base::kConfig;

    // `warp` counts the producers.
    __device__ __forceinline__ GatherProducer(const ParamsOf<Tuning>& params, SharedStorage<Tuning>& shared, int warp, int lane)
        : Base(params, shared, lane), gather_(params, shared, warp, lane), warp_(warp) {}

    // Consumers read shared memory after the __syncthreads that follows.
    __device__ __forceinline__ void find_cta_range() {
        if (this->params_.head_dim != kConfig.head_dim) gather_.clear_columns();
        Base::find_cta_range(leads());
    }

    __device__ __forceinline__ void run() {
        SplitIterator<SequenceKeysOf<Tuning>, true> splits(this->params_.split_policy, this->cta_ranges_,
                                                                     static_cast<int>(blockIdx.x), this->begin_,
                                                                     sequence_keys<Tuning>(this->params_));
        SplitOf<Tuning> split;
        for (bool first = true; splits.next(split); first = false) {
            this->add_queries(split);
            if (!first && leads()) this->prefetch_query(split);
            load(split);
        }
        split.work_tile = kNoWorkTile;
        if (leads()) this->push_split(split);
        ptx::cp_async_wait_all();
    }

private:
    static_assert(kConfig.ragged, "packed queries have no new keys");

    // Whether this warp sends the splits.
    __device__ __forceinline__ bool leads() const { return warp_ == 0; }

    __device__ __forceinline__ void load(const SplitOf<Tuning>& split) {
        if constexpr (kConfig.local) this->enter_window(split, leads());
        gather_.enter(split.sequence, kv_head_of(this->params_, packed_rows<Tuning>(this->params_), split.work_tile));
        read_first_pages(split);
#pragma unroll 1
        for (int tile = split.first; tile < split.last; ++tile) {
            load(split, tile);
            if (leads() && tile == split.first) this->push_split(split);
        }
    }

    // The keys of a tile. A tile past the split has none.
    __device__ __forceinline__ int keys_of(const Split& split, int tile) const {
        const int tile_shift = this->params_.split_policy.tile_shift;
        return tile < split.last ? max_int(min_int(split.keys - (tile << tile_shift), 1 << tile_shift), 0) : 0;
    }

    __device__ __forceinline__ void read_first_pages(const Split& split) {
        gather_.read_pages(this->key_of_tile(split.first), keys_of(split, split.first));
#pragma unroll 1
        for (int tile = split.first + 1; tile < min_int(split.first + kTilesAhead, split.last); ++tile) {
            gather_.prefetch_pages(this->key_of_tile(tile), keys_of(split, tile));
        }
    }

    // The pages of the next tile are read while this one is copied. Later ones are prefetched, because DRAM answers late under load.
    __device__ __forceinline__ void load(const Split& split, int tile) {
        auto& ring = this->ring_;
        gather_.locate();
        gather_.read_pages(this->key_of_tile(tile + 1), keys_of(split, tile + 1));
        gather_.prefetch_pages(this->key_of_tile(tile + kTilesAhead), keys_of(split, tile + kTilesAhead));
        ring.wait_empty(this->shared_.ring);
        gather_.copy(ring.slot, keys_of(split, tile));
        ptx::cp_async_arrive_noinc(&this->shared_.ring.full[ring.slot]);
        ring.advance();
    }

    Gather<Tuning> gather_;
    int warp_;
};

}  // namespace flashcore::decode
