// The producer of a paged variant: one warp. A KV block consists of boxes of one page and one column of swizzle atoms each. Lane i
// loads box i of every block. It reads page numbers one block ahead.
#pragma once

#include "flashcore/attention/page_box.h"
#include "flashcore/attention/producer.cuh"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::attention {

template <class Tuning>
class PagedProducer : Producer<Tuning> {
    using Base = Producer<Tuning>;
    using Base::kConfig;
    using typename Base::Position, typename Base::Ring, typename Base::Tiles;

    static constexpr int kAtomColumns = sm90::ElementTraits<typename Base::Element>::kSwizzleAtomColumns;
    static constexpr int kColumns = kConfig.head_dim / kAtomColumns;  // of swizzle atoms

public:
    __device__ __forceinline__ PagedProducer(const PagedParams& params, SharedStorage<Tuning>& shared)
        : Base(params, shared), pages_(params.pages), lane_(static_cast<int>(threadIdx.x)) {}

    __device__ __forceinline__ void run() {
        while (next_tile()) load(this->shared_.producer_tile);
        if (lane_ > 0) return;
        for (int warpgroup = 0; warpgroup < kConfig.consumer_warpgroups; ++warpgroup)
            this->send_tile(warpgroup, {kNoTile, 0, 0, 0, 0}, 0);
    }

private:
    // Lane 0 writes the next tile for all lanes. False if there is none.
    __device__ __forceinline__ bool next_tile() {
        int index = kNoTile;
        __syncwarp();  // all lanes have read the tile before
        if (lane_ == 0) {
            index = this->scheduler_.get_next();
            if (index != kNoTile)
                this->shared_.producer_tile = tile_at<kConfig.causal>(this->params_, index, kConfig.tile_m);
        }
        return __shfl_sync(sm90::kFullWarpMask, index, 0) != kNoTile;
    }

    // In the order of Producer::load. The values of a block are in the pages of its keys.
    __device__ __forceinline__ void load(const ProducerTile& next) {
        const int n_blocks = needed_n_blocks<kConfig.causal>(next.tile, 0, kConfig.tile_m, kConfig.tile_n);
        keys_ = this->params_.sk - next.first_key;
        table_ = pages_.table + next.kv_batch * pages_.table_stride;
        this->kv_head_ = quotient(next.tile.head, this->params_.heads_per_kv_head);
        int value_page = page_of(n_blocks - 1, lane_);
        int key_page = page_of(n_blocks - 2, lane_);
        if (n_blocks > 0)
            load_n_block(this->k_, this->shared_.k_ring, this->shared_.k, &this->params_.k, pages_.key_head_stride, n_blocks - 1, value_page);
        if (lane_ == 0) {
            this->load_query(next.tile);
            if (n_blocks == 0) this->scheduler_.prefetch_next();
        }
#pragma unroll 1
        for (int n_block = n_blocks - 1; n_block >= 0; --n_block) {
            const int next_page = page_of(n_block - 2, lane_);
            if (n_block > 0) {
                load_n_block(this->k_, this->shared_.k_ring, this->shared_.k, &this->params_.k, pages_.key_head_stride, n_block - 1, key_page);
            } else if (lane_ == 0) {
                this->scheduler_.prefetch_next();
            }
            load_n_block(this->v_, this->shared_.v_ring, this->shared_.v, &this->params_.v, pages_.value_head_stride, n_block, value_page);
            value_page = key_page;
            key_page = next_page;
        }
    }

    __device__ __forceinline__ int first_key(int n_block, int box) const {
        return n_block * kConfig.tile_n + box / kColumns * pages_.box_rows;
    }

    // The page of a box. Boxes past the last key have none: the table may end there.
    __device__ __forceinline__ int page_of(int n_block, int box) const {
        const int key = first_key(n_block, box);
        return n_block >= 0 && key < keys_ ? __ldg(table_ + pages_.size.quotient(key)) : 0;
    }

    __device__ __forceinline__ void load_n_block(Position& position, Ring& ring, Tiles& tiles, const CUtensorMap* map,
                                                 int head_stride, int n_block, int page) {
        position.wait_empty(ring);
        if (lane_ == 0) position.arrive_and_expect_tx(ring, key_tile_bytes(kConfig));
        __syncwarp();
        const int boxes = kColumns * kConfig.tile_n / pages_.box_rows;
#pragma unroll 1
        for (int box = lane_; box < boxes; box += kWarpThreads) {  // more than one only for pages of fewer than 8 keys
            load_box(tiles[position.slot], map, &ring.full[position.slot], this->kv_head_ * head_stride, n_block, box, page);
            if (box + kWarpThreads < boxes) page = page_of(n_block, box + kWarpThreads);
        }
        position.advance();
    }

    __device__ __forceinline__ void load_box(uint8_t* tile, const CUtensorMap* map, uint64_t* full, int head_column, int n_block,
                                             int box, int page) {
        const int key = first_key(n_block, box);
        const PageBox source = page_box(pages_.size, keys_, key);
        const int column = box % kColumns;
        uint8_t* const rows =
            tile + column * sm90::atom_column_bytes(kConfig.tile_n) + (key - n_block * kConfig.tile_n) * sm90::kSwizzleBytes;
        ptx::tma_load_5d(rows, map, full, head_column + column * kAtomColumns, source.row, clamp(page, 0, pages_.count - 1),
                         source.end, kBatchRows);
    }

    const Pages& pages_;
    int lane_;
    int keys_;          // of the current tile's sequence
    const int* table_;  // of the sequence
};

}  // namespace flashcore::attention
