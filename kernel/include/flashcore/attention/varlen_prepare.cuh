// Lays out a varlen batch for the attention kernel. One CTA sorts the sequences by length and numbers their tiles.
#pragma once

#include "flashcore/attention/plan.h"
#include "flashcore/attention/varlen.h"
#include "flashcore/core/launch.cuh"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::attention {

// Sequences are sorted by length buckets, eight per power of two, the longest first. The order within a bucket is arbitrary. No
// result depends on it.
constexpr int kLengthBuckets = 256;

__device__ __forceinline__ int length_bucket(int length) {
    constexpr int kMantissaBits = 23;
    constexpr int kExponentOfOne = 127;
    constexpr int kBucketBits = 3;
    const int bits = __float_as_int(static_cast<float>(length)) >> (kMantissaBits - kBucketBits);
    return kLengthBuckets - 1 - max(0, bits - (kExponentOfOne << kBucketBits) + 1);
}

// Adds numbers of tiles. Garbage in the lengths must not make them overflow.
__device__ __forceinline__ int saturating_add(int a, int b) {
    return static_cast<int>(min(static_cast<unsigned>(a) + static_cast<unsigned>(b), static_cast<unsigned>(kTileLimit)));
}

struct BlockScan {
    int exclusive;  // of all threads before this one
    int total;
};

// Scan over a whole CTA. `warps` has one number per warp.
template <int kThreads>
__device__ __forceinline__ BlockScan block_scan(int value, int (&warps)[kThreads / kWarpThreads]) {
    static_assert(kThreads / kWarpThreads <= kWarpThreads, "every warp adds up the sums of all warps");
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
    const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
#pragma unroll
    for (int distance = 1; distance < kWarpThreads; distance *= 2) {
        const int preceding = __shfl_up_sync(sm90::kFullWarpMask, value, distance);
        if (lane >= distance) value = saturating_add(value, preceding);
    }
    if (lane == kWarpThreads - 1) warps[warp] = value;
    __syncthreads();
    const int exclusive_in_warp = __shfl_up_sync(sm90::kFullWarpMask, value, 1);
    int total = lane < kThreads / kWarpThreads ? warps[lane] : 0;
    int exclusive = lane < warp ? total : 0;
#pragma unroll
    for (int distance = 1; distance < kWarpThreads; distance *= 2) {
        total = saturating_add(total, __shfl_xor_sync(sm90::kFullWarpMask, total, distance));
        exclusive = saturating_add(exclusive, __shfl_xor_sync(sm90::kFullWarpMask, exclusive, distance));
    }
    __syncthreads();  // `warps` may be written again
    return {lane > 0 ? saturating_add(exclusive, exclusive_in_warp) : exclusive, total};
}

// Query tiles of one head.
template <bool kPaged>
__device__ __forceinline__ int row_tiles_of(const BatchOf<kPaged>& batch, int queries) {
    if constexpr (kPaged) {
        if (queries < batch.min_queries) return 0;
    }
    return (queries + batch.tile_m - 1) / batch.tile_m;
}

// Whether heads may share tiles. With fewer tiles than CTAs a tile per head is faster, because shared tiles take longer.
template <int kThreads, bool kPaged>
__device__ __forceinline__ bool may_share_heads(const BatchOf<kPaged>& batch, int (&warps)[kThreads / kWarpThreads]) {
    if (batch.shared_tiles == 0) return false;
    int row_tiles = 0;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < batch.batch; i += kThreads)
        row_tiles = saturating_add(row_tiles, row_tiles_of<kPaged>(batch, sequence_range(batch.q, i).length));
    return block_scan<kThreads>(row_tiles, warps).total > batch.ctas / batch.heads;
}

// Returns the info with the sequence's number of tiles in the place of its first tile.
template <bool kPaged>
__device__ __forceinline__ SequenceInfo info_with_tile_count(const BatchOf<kPaged>& batch, int sequence, bool may_share) {
    const SequenceRange q = sequence_range(batch.q, sequence);
    const SequenceRange k = key_range<kPaged>(batch.k, sequence);
    const int row_tiles = row_tiles_of<kPaged>(batch, q.length);
    const bool shares = may_share && row_tiles > 0 && q.length - (row_tiles - 1) * batch.tile_m <= kWarpgroupRows;
    const int shared_tiles = shares ? batch.shared_tiles : 0;
    const auto group = static_cast<int>(group_size(batch.causal, batch.head_dim, k.length, batch.heads));
    const int tiles = (shares ? row_tiles - 1 : row_tiles) * batch.heads + shared_tiles;
    return {tiles, row_tiles, group, q.end, k.end, q.length, k.length, shared_tiles};
}

// Shared memory of `prepare`. A CTA of fewer threads than buckets has wider ones.
template <int kThreads>
struct PrepareStorage {
    static constexpr int kBuckets = kThreads < kLengthBuckets ? kThreads : kLengthBuckets;
    int bucket_offsets[kBuckets];  // sequences of each bucket, then the index of its next sequence
    int warps[kThreads / kWarpThreads];
};

// One thread per bucket. A batch of another type also wants to know which sequence each sequence info belongs to.
template <int kThreads, bool kPaged, class Batch>
__device__ __forceinline__ void prepare(const Batch& batch, PrepareStorage<kThreads>& storage) {
    constexpr int kBuckets = PrepareStorage<kThreads>::kBuckets;
    constexpr int kWidth = kLengthBuckets / kBuckets;
    auto& [bucket_offsets, warps] = storage;
    static_assert(kBuckets * kWidth == kLengthBuckets, "buckets are equally wide");
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kBuckets) bucket_offsets[thread] = 0;
    __syncthreads();
    const bool may_share = may_share_heads<kThreads, kPaged>(batch, warps);
    for (int i = thread; i < batch.batch; i += kThreads)
        atomicAdd(&bucket_offsets[length_bucket(key_range<kPaged>(batch.k, i).length) / kWidth], 1);
    __syncthreads();
    const int bucket_offset = block_scan<kThreads>(thread < kBuckets ? bucket_offsets[thread] : 0, warps).exclusive;
    if (thread < kBuckets) bucket_offsets[thread] = bucket_offset;
    __syncthreads();
    for (int i = thread; i < batch.batch; i += kThreads) {
        const SequenceInfo info = info_with_tile_count<kPaged>(batch, i, may_share);
        const int place = atomicAdd(&bucket_offsets[length_bucket(info.sk) / kWidth], 1);
        batch.sequence_infos[place] = info;
        if constexpr (!std::is_same_v<Batch, BatchOf<kPaged>>) batch.sequences[place] = i;
    }
    __syncthreads();
    int tiles = 0;
    for (int first = 0; first < batch.batch; first += kThreads) {
        const int i = first + thread;
        const BlockScan scan = block_scan<kThreads>(i < batch.batch ? batch.sequence_infos[i].first_tile : 0, warps);
        if (i < batch.batch) batch.sequence_infos[i].first_tile = saturating_add(tiles, scan.exclusive);
        tiles = saturating_add(tiles, scan.total);
    }
    if (thread > 0) return;
    batch.sequence_infos[batch.batch].first_tile = tiles;
    *batch.tile_counter = {0, 0};
}

// The entry function. It chooses once between packed rows and pages.
template <int kThreads>
__device__ __forceinline__ void prepare_batch(const PagedBatch& batch) {
    __shared__ PrepareStorage<kThreads> storage;
    if (batch.packed) return prepare<kThreads, false>(static_cast<const VarlenBatch&>(batch), storage);
    prepare<kThreads, true>(batch, storage);
}

}  // namespace flashcore::attention
