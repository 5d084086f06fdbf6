// The end of a tile: normalise, convert, and send the output through the query's slot to memory.
#pragma once

#include "flashcore/attention/fragment.cuh"
#include "flashcore/attention/params.h"
#include "flashcore/attention/schedule.h"
#include "flashcore/attention/shared_storage.cuh"
#include "flashcore/attention/softmax.cuh"
#include "flashcore/ptx/tma.cuh"

namespace flashcore::attention {

// 1 / sum, and 0 for a row that saw no key: its output is 0.
__device__ __forceinline__ Rescale normalise(Rows& rows) {
    Rescale rescale;
#pragma unroll
    for (int r = 0; r < kRowsPerThread; ++r) {
        rows.sum[r] = quad_sum(rows.sum[r]);
        rescale.factor[r] = rows.sum[r] == 0.0f ? 0.0f : __fdividef(1.0f, rows.sum[r]);
    }
    return rescale;
}

__device__ __forceinline__ void store_lse(const Params& params, const Tile& tile, const Rows& rows, int warp_row, int lane) {
    if (params.lse == nullptr || lane % kQuadLanes != 0) return;
    float* lse = params.lse + (static_cast<int64_t>(tile.batch) * params.heads + tile.head) * params.sq;
#pragma unroll
    for (int r = 0; r < kRowsPerThread; ++r) {
        const int row = tile.first_row + warp_row + lane / kQuadLanes + r * sm90::kGroupRows;
        const float value = rows.maximum[r] * (params.scale_log2 * kLn2) + __logf(rows.sum[r]);
        if (row < params.sq) lse[row] = rows.sum[r] == 0.0f ? minus_infinity() : value;
    }
}

// Writes a warp's 16 rows into its part of a tile in shared memory.
template <class Element, int kHeadDim, int kTileRows>
__device__ __forceinline__ void stage_rows(uint8_t* tile, const float (&output)[kHeadDim / 2], int warp_row, int lane) {
    asm volatile("" : "+r"(lane));  // addresses are worked out here, not kept in registers throughout the main loop
#pragma unroll
    for (int column = 0; column < kHeadDim; column += 16) {
        const float* fragment = output + column / 2;
        ptx::store_matrix_x4(block_chunk<kTileRows>(tile, warp_row, lane, column),
                             ptx::pack<Element>(fragment[0], fragment[1]), ptx::pack<Element>(fragment[2], fragment[3]),
                             ptx::pack<Element>(fragment[4], fragment[5]), ptx::pack<Element>(fragment[6], fragment[7]));
    }
}

// One lane sends the warp's rows; the copy engine drops those past the end of the queries.
template <int kHeadDim, int kTileRows>
__device__ __forceinline__ void send_rows(const Params& params, const Tile& tile, const uint8_t* shared, int warp_row) {
#pragma unroll
    for (int column = 0; column < kHeadDim; column += sm90::kBlockColumns) {
        const uint8_t* rows = shared + column / sm90::kBlockColumns * sm90::block_bytes(kTileRows) + warp_row * sm90::kRowBytes;
        ptx::tma_store_4d(&params.out, rows, column, tile.first_row + warp_row, tile.head, tile.batch);
    }
    ptx::tma_store_commit();
    ptx::tma_store_wait_read();
}

}  // namespace flashcore::attention
