// The producers of a paged variant: a warp each for keys, values and queries. A KV block consists of boxes of one page and one
// column of swizzle atoms each. Lane i loads box i of every block. It reads page numbers two blocks ahead.
#pragma once

#include "flashcore/attention/page_box.h"
#include "flashcore/attention/producer.cuh"
#include "flashcore/attention/shared_tile.h"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::attention {

// Its number is that of the warp.
enum class Operand { kKeys, kValues, kQueries };

// One operand per warp: the loop over KV blocks must be short. It shares the instruction cache with the consumers' main loop, and
// one warp for all operands limited the kernel (kernel/TUNING-varlen.md).
template <class Tuning, Operand kOperand>
class PagedProducer : Producer<Tuning> {
    using Base = Producer<Tuning>;
    using Base::kConfig;

    static constexpr bool kIsKeys = kOperand == Operand::kKeys;
    static constexpr int kAtomColumns = sm90::ElementTraits<typename Base::Element>::kSwizzleAtomColumns;
    static constexpr int kColumns = kConfig.head_dim / kAtomColumns;  // of swizzle atoms
    static constexpr bool kTakesPackedRows = can_share_heads(kConfig);

public:
    __device__ __forceinline__ PagedProducer(const PagedParams& params, SharedStorage<Tuning>& shared)
        : Base(params, shared), pages_(params.pages), lane_(static_cast<int>(threadIdx.x) % kWarpThreads) {}

    __device__ __forceinline__ void run() {
        if (kOperand == Operand::kQueries && lane_ > 0) return;
        for (;;) {
            const SentTile<Tuning>& sent = next_tile();
            const ProducerTile next = read_tile(sent);
            if (next.tile.row == kNoTile) break;
            if constexpr (kOperand == Operand::kQueries) {
                load_queries(next, sent);
            } else {
                load(next);
            }
            if (!kIsKeys) tile_.release(this->shared_.producer_tile_ring, lane_ == 0);
            tile_.advance();
        }
        if constexpr (kOperand == Operand::kQueries) {
            for (int warpgroup = 0; warpgroup < kConfig.consumer_warpgroups; ++warpgroup)
                this->send_tile(warpgroup, {kNoTile, 0, 0, 0, 0}, 0);
        }
    }

private:
    // The warp of keys writes the next tile for all. With two slots it may load the keys of a tile while the others still load
    // the tile before.
    __device__ __forceinline__ const SentTile<Tuning>& next_tile() {
        auto& ring = this->shared_.producer_tile_ring;
        SentTile<Tuning>& next = this->shared_.producer_tiles[tile_.slot];
        if (kIsKeys && lane_ == 0) {
            tile_.wait_empty(ring);
            const int index = this->scheduler_.get_next();
            if (index == kNoTile) {
                next.tile.row = kNoTile;
            } else {
                next = tile_number(index);
            }
            tile_.arrive_and_expect_tx(ring, 0);
        }
        tile_.wait_full(ring);
        return next;
    }

    __device__ __forceinline__ SentTile<Tuning> tile_number(int index) const {
        if constexpr (can_share_heads(kConfig)) {
            return shared_tile_at<Tuning>(this->params_, index);
        } else {
            return tile_at<kConfig.causal>(this->params_, index, kConfig.tile_m);
        }
    }

    // Where heads share a tile, each warpgroup gets the rows of its own head.
    __device__ __forceinline__ void load_queries(const ProducerTile& next, const SentTile<Tuning>& sent) {
        if constexpr (can_share_heads(kConfig)) {
            const int heads = sent.heads;
#pragma unroll
            for (int warpgroup = 0; warpgroup < kConfig.consumer_warpgroups; ++warpgroup)
                this->load_rows(tile_of_head<kConfig.causal>(next.tile, warpgroup < heads ? warpgroup : 0), warpgroup);
            this->q_.advance();
        } else {
            this->load_query(next.tile);
        }
    }

    // Lane 0 reads for its warp, because lane 0 releases the slot. So no other lane's read has to be ordered before that.
    __device__ __forceinline__ ProducerTile read_tile(const ProducerTile& shared) const {
        static_assert(sizeof(ProducerTile) % sizeof(int) == 0, "a tile is shuffled in words");
        if (kOperand == Operand::kQueries) return shared;
        ProducerTile tile{};
        if (lane_ == 0) tile = shared;
        int* const words = reinterpret_cast<int*>(&tile);
#pragma unroll
        for (int i = 0; i < static_cast<int>(sizeof(ProducerTile) / sizeof(int)); ++i)
            words[i] = __shfl_sync(sm90::kFullWarpMask, words[i], 0);
        return tile;
    }

    __device__ __forceinline__ void load(const ProducerTile& next) {
        const auto [first, n_blocks] = needed_blocks<Tuning>(this->params_, next.tile, 0, kConfig.tile_m);
        if (kIsKeys && lane_ == 0) count_loaded<Tuning>(this->params_, n_blocks - first);
        const int head_stride = kIsKeys ? pages_.key_head_stride : pages_.value_head_stride;
        keys_ = this->params_.sk - next.first_key;
        table_ = pages_.table + next.kv_batch * pages_.table_stride;
        asm volatile("" : "+l"(table_));  // one address instead of its product in every block
        first_column_ = quotient(next.tile.head, this->params_.heads_per_kv_head) * head_stride;
        int page = keep_after_loads(page_of(n_blocks - 1, lane_));
        int next_page = page_of(n_blocks - 2, lane_);
#pragma unroll 1
        for (int n_block = n_blocks - 1; n_block >= first; --n_block) {
            load_n_block(n_block, page);
            page = keep_after_loads(next_page);
            next_page = page_of(n_block - 2, lane_);
        }
        if (kIsKeys && lane_ == 0) this->scheduler_.prefetch_next();
    }

    // A shuffle to the same lane: the wait for a page read from the table is here. ptxas moves an ordinary copy before the loads
    // of a block, where it would wait for pages that are needed later.
    __device__ __forceinline__ int keep_after_loads(int page) const {
        return __shfl_sync(sm90::kFullWarpMask, page, lane_);
    }

    __device__ __forceinline__ int first_key(int n_block, int box) const {
        return n_block * kConfig.tile_n + box / kColumns * pages_.box_rows;
    }

    // The page of a box. Boxes past the last key have none: the table may end there. Packed rows are one page.
    __device__ __forceinline__ int page_of(int n_block, int box) const {
        const int key = first_key(n_block, box);
        if constexpr (kTakesPackedRows) {
            if (pages_.table == nullptr) return 0;
        }
        return n_block >= 0 && key < keys_ ? __ldg(table_ + pages_.size.quotient(key)) : 0;
    }

    // Where the rows of a box end in their page. Without a table the sequence's place in it is the row where its keys end.
    __device__ __forceinline__ int end_of(const PageBox& source) const {
        if constexpr (kTakesPackedRows) {
            if (pages_.table == nullptr) return static_cast<int>(reinterpret_cast<uintptr_t>(table_) / sizeof(int));
        }
        return source.end;
    }

    __device__ __forceinline__ void load_n_block(int n_block, int page) {
        auto& ring = kIsKeys ? this->shared_.k_ring : this->shared_.v_ring;
        position_.wait_empty(ring);
        if (lane_ == 0) position_.arrive_and_expect_tx(ring, key_tile_bytes(kConfig));
        __syncwarp();
#pragma unroll 1
        for (int box = lane_; box < pages_.boxes; box += kWarpThreads) {  // more than one only for pages of fewer than 8 keys
            load_box(n_block, box, page);
            if (pages_.boxes > kWarpThreads) page = keep_after_loads(page_of(n_block, box + kWarpThreads));
        }
        position_.advance();
    }

    __device__ __forceinline__ void load_box(int n_block, int box, int page) {
        uint8_t* const tile = (kIsKeys ? this->shared_.k : this->shared_.v)[position_.slot];
        uint64_t* const full = &(kIsKeys ? this->shared_.k_ring : this->shared_.v_ring).full[position_.slot];
        const CUtensorMap* const map = kIsKeys ? &this->params_.k : &this->params_.v;
        const int key = first_key(n_block, box);
        const PageBox source = page_box(pages_.size, keys_, key);
        const int column = box % kColumns;
        uint8_t* const rows =
            tile + column * sm90::atom_column_bytes(kConfig.tile_n) + (key - n_block * kConfig.tile_n) * sm90::kSwizzleBytes;
        ptx::tma_load_5d(rows, map, full, first_column_ + column * kAtomColumns, source.row, clamp(page, 0, pages_.count - 1),
                         end_of(source), kBatchRows);
    }

    const Pages& pages_;
    int lane_;
    int keys_;          // of the current tile's sequence
    int first_column_;  // of the current tile's KV head
    const int* table_;  // of the sequence. Packed rows: from address 0 on, the row where its keys end
    sm90::RingPosition<kProducerTiles> tile_;
    typename Base::Position position_;
};

}  // namespace flashcore::attention
