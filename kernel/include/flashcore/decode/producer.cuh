// The producer: one warp that writes the new keys into the cache and keeps the ring of tiles full.
#pragma once

#include "flashcore/decode/params.h"
#include "flashcore/decode/rows.cuh"
#include "flashcore/decode/shared_storage.cuh"
#include "flashcore/decode/walk.cuh"
#include "flashcore/ptx/memory.cuh"

namespace flashcore::decode {

// The pages of one sequence. The warp holds 32 entries of its row of the table and reads the next ones when it gets there.
class Pages {
public:
    __device__ __forceinline__ Pages(const Cache& cache, int lane) : cache_(cache), lane_(lane) {}

    __device__ __forceinline__ void enter(int sequence) {
        sequence_ = sequence;
        first_ = last_ = 0;  // none
    }

    // Which entry of its row of the table a key's page is in, and its place in that page.
    __device__ __forceinline__ int slot(int key) const { return key >> cache_.page_shift; }
    __device__ __forceinline__ int within(int key, int slot) const { return key - (slot << cache_.page_shift); }

    // Makes entries available: each lane wants one, the lanes 32 that follow each other at most. All lanes call.
    __device__ __forceinline__ void want(int slot) {
        if (cache_.table == nullptr || __all_sync(sm90::kWholeWarp, first_ <= slot && slot < last_)) return;
        first_ = __shfl_sync(sm90::kWholeWarp, slot, 0);
        last_ = first_ + sm90::kWarpThreads;
        entry_ = read(least(first_ + lane_, (cache_.room >> cache_.page_shift) - 1));
    }

    // The page in one of these entries, each lane its own. All lanes call.
    __device__ __forceinline__ int page(int slot) const {
        if (cache_.table == nullptr) return sequence_;
        return __shfl_sync(sm90::kWholeWarp, entry_, slot - first_);
    }

    // The page in any entry, straight from the table.
    __device__ __forceinline__ int read(int slot) const {
        if (cache_.table == nullptr) return sequence_;
        return most(least(__ldg(cache_.table + sequence_ * cache_.table_stride + slot), cache_.pages - 1), 0);
    }

private:
    const Cache& cache_;
    int lane_;
    int sequence_ = 0;
    int first_ = 0;  // entries first_ .. last_ - 1 are held
    int last_ = 0;
    int entry_ = 0;
};

template <class Tuning>
class Producer {
public:
    static constexpr Config kConfig = Tuning::config;

    __device__ __forceinline__ Producer(const Params& params, SharedStorage<Tuning>& shared, int lane)
        : params_(params), shared_(shared), lane_(lane), pages_(params.cache, lane) {}

    // What is this CTA's to do. The consumers may read it once all threads have met.
    __device__ __forceinline__ void find_share() {
        const Line line(params_.cache, params_.cut, lane_);
        shares_ = Parts(params_.cut.units * line.length(), static_cast<int>(gridDim.x));
        if (lane_ == 0) shared_.shares = shares_;
        const int begin = shares_.begin(static_cast<int>(blockIdx.x));
        if (begin < shares_.begin(static_cast<int>(blockIdx.x) + 1)) begin_ = line.find(begin);
    }

    __device__ __forceinline__ void run() {
        Walk<KeysOf> walk(params_.cut, shares_, static_cast<int>(blockIdx.x), begin_, KeysOf{&params_.cache});
        Piece piece;
        for (bool first = true; walk.next(piece); first = false) {
            if (!first) prefetch_query(piece);
            load(piece);
        }
        piece.unit = kNoUnit;
        tell(piece);
    }

private:
    // The consumers learn of a piece once its first copies are on their way.
    __device__ __forceinline__ void tell(const Piece& piece) {
        told_.wait_empty(shared_.pieces);
        if (lane_ == 0) {
            shared_.piece[told_.slot] = piece;
            told_.announce(shared_.pieces, 0);
        }
        __syncwarp();
        told_.advance();
    }

    // While memory is busy, what was not asked for long before is waited for long. A query that is used at once comes by itself.
    __device__ __forceinline__ void prefetch_query(const Piece& piece) const {
        constexpr int kLine = 128;  // bytes
        constexpr int kLines = kConfig.head_dim * kBytesPerElement / kLine;
        const Rows rows = rows_of<Tuning>(params_);
        const Unit unit(params_, rows, piece);
#pragma unroll 1
        for (int i = lane_; i < rows.per_unit * kLines; i += sm90::kWarpThreads) {
            const int row = unit.first_row + i / kLines;
            if (!rows.exists(row)) continue;
            ptx::prefetch_l2(reinterpret_cast<const char*>(query_row(params_, rows, unit, row)) + i % kLines * kLine);
        }
    }

    __device__ __forceinline__ void load(const Piece& piece) {
        pages_.enter(piece.sequence);
        kv_head_ = kv_head_of(params_, rows_of<Tuning>(params_), piece.unit);
        if (params_.cache.new_keys > 0) append(piece);
#pragma unroll 1
        for (int tile = piece.first; tile < piece.last; ++tile) {
            load(piece, tile);
            if (tile == piece.first) tell(piece);
        }
    }

    // One copy for the keys and one for the values of each box; a box is a tile, or a page if that is smaller. Boxes without a
    // key are not loaded: whatever is in their place is masked.
    __device__ __forceinline__ void load(const Piece& piece, int tile) {
        const int first = tile << params_.cut.tile_shift;
        const int keys = most(least(piece.keys - first, 1 << params_.cut.tile_shift), 0);
        const int boxes = (keys + (1 << params_.box_shift) - 1) >> params_.box_shift;
        const int key = first + (least(lane_, most(boxes - 1, 0)) << params_.box_shift);  // of this lane's box
        const int slot = pages_.slot(key);
        if (boxes > 0) pages_.want(slot);
        const int page = pages_.page(slot);
        const uint32_t box_bytes = (rows_of<Tuning>(params_).heads * kConfig.head_dim * kBytesPerElement) << params_.box_shift;
        const int stage = position_.slot;
        position_.wait_empty(shared_.ring);
        if (lane_ == 0) position_.announce(shared_.ring, 2 * boxes * box_bytes);
        __syncwarp();
        if (lane_ < boxes) {
            uint64_t* const full = &shared_.ring.full[stage];
            const uint32_t offset = lane_ * box_bytes;
            const int within = pages_.within(key, slot);
            ptx::tma_load_5d(shared_.k[stage] + offset, &params_.k, full, 0, within, 0, kv_head_, page);
            ptx::tma_load_5d(shared_.v[stage] + offset, &params_.v, full, 0, within, 0, kv_head_, page);
        }
        position_.advance();
    }

    // Writes the new keys and values of this piece into the cache, which the copies then read like any other. Nobody else reads
    // them: other units of this KV head write the same for themselves.
    __device__ __forceinline__ void append(const Piece& piece) {
        constexpr int kChunkElements = 8;
        constexpr int kChunks = kConfig.head_dim / kChunkElements;
        const Cache& cache = params_.cache;
        // Only in a full cache the new keys may be fewer than asked for. It needs the length again.
        const bool all_fit = cache.lengths == nullptr || piece.keys < cache.room;
        const int old = all_fit ? piece.keys - cache.new_keys : keys_before(__ldg(cache.lengths + piece.sequence), cache.room);
        const int first = most(piece.first << params_.cut.tile_shift, old);
        const int last = least(piece.last << params_.cut.tile_shift, piece.keys);
        if (first >= last) return;
        const int chunks = rows_of<Tuning>(params_).heads * kChunks;  // of a key
#pragma unroll 1
        for (int i = lane_; i < (last - first) * chunks; i += sm90::kWarpThreads) {
            const int key = first + divide(i, chunks);
            const int chunk = i - (key - first) * chunks;
            const int head = kv_head_ + chunk / kChunks;
            const int column = chunk % kChunks * kChunkElements;
            const int slot = pages_.slot(key);
            const int page = pages_.read(slot);
            const int within = pages_.within(key, slot);
            const uint4 k = *at<const uint4>(params_.k_new, piece.sequence, key - old, head, column);
            const uint4 v = *at<const uint4>(params_.v_new, piece.sequence, key - old, head, column);
            *at<uint4>(params_.k_cache, page, within, head, column) = k;
            *at<uint4>(params_.v_cache, page, within, head, column) = v;
        }
        ptx::fence_async();
        __syncwarp();
    }

    template <class T>
    __device__ __forceinline__ T* at(const FlashcoreOperand& operand, int64_t batch, int64_t row, int head, int column) const {
        auto* const elements = static_cast<uint16_t*>(operand.data);
        return reinterpret_cast<T*>(elements + batch * operand.batch_stride + row * operand.sequence_stride +
                                    head * operand.head_stride + column);
    }

    const Params& params_;
    SharedStorage<Tuning>& shared_;
    int lane_;
    Parts shares_{0, 1};
    Place begin_{};
    Pages pages_;
    int kv_head_ = 0;
    sm90::RingPosition<kConfig.stages> position_;
    sm90::RingPosition<kPieceSlots> told_;
};

}  // namespace flashcore::decode
