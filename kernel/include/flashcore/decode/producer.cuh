// The producer: one warp that writes the new keys into the cache and keeps the ring of tiles full.
#pragma once

#include "flashcore/decode/params.h"
#include "flashcore/decode/shared_storage.cuh"
#include "flashcore/decode/walk.cuh"

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
    __device__ __forceinline__ int slot(int key) const { return cache_.table == nullptr ? 0 : divide(key, cache_.page_size); }
    __device__ __forceinline__ int within(int key, int slot) const { return key - slot * cache_.page_size; }

    // Makes entries available: each lane wants one, the lanes 32 that follow each other at most. All lanes call.
    __device__ __forceinline__ void want(int slot) {
        if (cache_.table == nullptr || __all_sync(sm90::kWholeWarp, first_ <= slot && slot < last_)) return;
        first_ = __shfl_sync(sm90::kWholeWarp, slot, 0);
        last_ = first_ + sm90::kWarpThreads;
        entry_ = read(least(first_ + lane_, divide(cache_.room, cache_.page_size) - 1));
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

    __device__ __forceinline__ void run() {
        const Line line(params_, lane_);
        const int tiles = line.tiles();
        if (lane_ == 0) shared_.line_tiles = tiles;
        const Deal deal(tiles, static_cast<int>(gridDim.x), params_.whole);
        ShareQueue queue(params_, deal, lane_);
        for (int share; queue.take(share);) {
            Walk<KeysOf> walk(params_.cut, deal, share, line.find(deal.begin(share)), KeysOf{&params_.cache});
            for (Piece piece; walk.next(piece);) load(piece);
        }
        send({kNoTile, 1}, {}, 0);
    }

private:
    __device__ __forceinline__ void load(const Piece& piece) {
        pages_.enter(piece.sequence);
        kv_head_ = divide(piece.unit, params_.row_units);
        if (params_.cache.new_keys > 0) append(piece);
        for (int tile = piece.first; tile < piece.last; ++tile) load(piece, tile);
    }

    // One copy for the keys and one for the values of each box; a box is a tile, or a page if that is smaller. Boxes without a
    // key are not loaded: whatever is in their place is masked.
    __device__ __forceinline__ void load(const Piece& piece, int tile) {
        const int first = tile * kConfig.tile_keys;
        const int boxes = divide_up(most(least(piece.keys - first, kConfig.tile_keys), 0), params_.box_keys);
        const int key = first + least(lane_, most(boxes - 1, 0)) * params_.box_keys;  // of this lane's box
        const int slot = pages_.slot(key);
        pages_.want(slot);
        const int page = pages_.page(slot);
        const uint32_t box_bytes = static_cast<uint32_t>(params_.box_keys * kConfig.head_dim * kBytesPerElement);
        const int stage = position_.slot;
        send({tile, tile == piece.first}, piece, 2 * boxes * box_bytes);
        if (lane_ < boxes) {
            uint64_t* const full = &shared_.ring.full[stage];
            const uint32_t offset = lane_ * box_bytes;
            const int within = pages_.within(key, slot);
            ptx::tma_load_5d(shared_.k[stage] + offset, &params_.k, full, 0, within, 0, kv_head_, page, params_.policy);
            ptx::tma_load_5d(shared_.v[stage] + offset, &params_.v, full, 0, within, 0, kv_head_, page, params_.policy);
        }
    }

    // Tells the consumers what comes next, once its slot is empty, and how many bytes of it there are to come.
    __device__ __forceinline__ void send(const Step& step, const Piece& piece, uint32_t bytes) {
        position_.wait_empty(shared_.ring);
        if (lane_ == 0) {
            shared_.step[position_.slot] = step;
            if (step.begins != 0) shared_.piece[position_.slot] = piece;
            position_.announce(shared_.ring, bytes);
        }
        __syncwarp();
        position_.advance();
    }

    // Writes the new keys and values of this piece into the cache, which the copies then read like any other. Nobody else reads
    // them: other units of this KV head write the same for themselves.
    __device__ __forceinline__ void append(const Piece& piece) {
        constexpr int kChunkElements = 8;
        constexpr int kChunks = kConfig.head_dim / kChunkElements;
        const int old = piece.keys - params_.cache.new_keys;
        const int first = most(piece.first * kConfig.tile_keys, old);
        const int last = least(piece.last * kConfig.tile_keys, piece.keys);
        if (first >= last) return;
        for (int i = lane_; i < (last - first) * kChunks; i += sm90::kWarpThreads) {
            const int key = first + i / kChunks;
            const int column = i % kChunks * kChunkElements;
            const int slot = pages_.slot(key);
            const int page = pages_.read(slot);
            const int within = pages_.within(key, slot);
            const uint4 k = *at<const uint4>(params_.k_new, piece.sequence, key - old, column);
            const uint4 v = *at<const uint4>(params_.v_new, piece.sequence, key - old, column);
            *at<uint4>(params_.k_cache, page, within, column) = k;
            *at<uint4>(params_.v_cache, page, within, column) = v;
        }
        ptx::fence_async();
        __syncwarp();
    }

    template <class T>
    __device__ __forceinline__ T* at(const FlashcoreOperand& operand, int64_t batch, int64_t row, int column) const {
        auto* const elements = static_cast<uint16_t*>(operand.data);
        return reinterpret_cast<T*>(elements + batch * operand.batch_stride + row * operand.sequence_stride +
                                    kv_head_ * operand.head_stride + column);
    }

    const Params& params_;
    SharedStorage<Tuning>& shared_;
    int lane_;
    Pages pages_;
    int kv_head_ = 0;
    sm90::RingPosition<kConfig.stages> position_;
};

}  // namespace flashcore::decode
