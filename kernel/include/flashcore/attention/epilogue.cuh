// The epilogue of a tile: normalise, convert, and write the rows from registers to memory.
#pragma once

#include "flashcore/attention/params.h"
#include "flashcore/attention/smem_tile.cuh"
#include "flashcore/attention/softmax.cuh"
#include "flashcore/core/logarithm.cuh"
#include "flashcore/core/sink.cuh"
#include "flashcore/attention/tile_scheduler.h"
#include "flashcore/ptx/tma.cuh"
#include "flashcore/sm90/smem_descriptor.cuh"

namespace flashcore::attention {

// The first of the two rows that a thread holds, in coordinates of the tensor maps. The second is kCoreMatrixRows below.
struct RowCoordinate {
    int row;
    int head;
    int batch;
};

// Returns 1 / sum per row. A row that saw no key gets 0, so its output is 0.
__device__ __forceinline__ Rescale inverse_row_sum(const SoftmaxState& state) {
    Rescale rescale;
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        rescale.factor[r] = state.row_sum[r] == 0.0f ? 0.0f : __fdividef(1.0f, state.row_sum[r]);
    }
    return rescale;
}

__device__ __forceinline__ void store_lse(const Params& params, const RowCoordinate& coordinate, const SoftmaxState& state,
                                          int lane) {
    if (params.lse == nullptr || lane % kQuadLanes != 0) return;
    float* lse = params.lse + coordinate.batch * params.lse_batch_stride + coordinate.head * params.lse_head_stride;
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        const int row = coordinate.row + r * sm90::kCoreMatrixRows;
        const float value = fmaf(state.row_max[r], params.scale, natural_log(state.row_sum[r]));
        if (row < params.sq) lse[row] = state.row_sum[r] == 0.0f ? minus_infinity() : value;
    }
}

// Adds the sink of the head to the sums. Stores the log-sum-exp and returns the factor of the output.
__device__ __forceinline__ Rescale finalize_with_sink(const Params& params, const RowCoordinate& coordinate,
                                                      const SoftmaxState& state, int lane) {
    const float sink = load_sink(local_of(params), coordinate.head);
    float* const lse = params.lse + coordinate.batch * params.lse_batch_stride + coordinate.head * params.lse_head_stride;
    Rescale rescale;
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        const RowEnd end = end_with_sink(state.row_max[r], state.row_sum[r], params.scale, sink);
        const int row = coordinate.row + r * sm90::kCoreMatrixRows;
        rescale.factor[r] = end.inverse;
        if (params.lse != nullptr && lane % kQuadLanes == 0 && row < params.sq) lse[row] = end.lse;
    }
    return rescale;
}

// Half of a transposition. Exchanges words with the lane whose number differs in bit `kLane`. Afterwards the words whose index
// has that bit hold the words of the upper lane.
template <int kLane>
__device__ __forceinline__ void exchange(uint32_t& first, uint32_t& second, int lane) {
    const bool upper = lane & kLane;
    const uint32_t received = __shfl_xor_sync(kFullWarpMask, upper ? first : second, kLane);
    (upper ? first : second) = received;
}

// Before, each of four lanes holds one word of each of four 16-byte units. Afterwards lane i holds unit i.
__device__ __forceinline__ void gather_unit(uint32_t (&words)[kQuadLanes], int lane) {
    exchange<2>(words[0], words[2], lane);
    exchange<2>(words[1], words[3], lane);
    exchange<1>(words[0], words[1], lane);
    exchange<1>(words[2], words[3], lane);
}

// Writes a thread's two rows, 64 contiguous bytes per quad. It skips rows past the end and columns past the head dimension.
template <class Element, int kCount>
__device__ __forceinline__ void store_rows_to_global(const Params& params, const RowCoordinate& coordinate,
                                                     const float (&output)[kCount], const Rescale& inverse, int lane) {
    asm volatile("" : "+r"(lane));  // compute addresses here, do not keep them in registers during the main loop
    constexpr int kColumns = kQuadLanes * sm90::ElementTraits<Element>::kUnitElements;  // columns that a quad writes at a time
    const Output& out = params.out;
    auto* const data = static_cast<Element*>(out.data) + coordinate.batch * out.batch_stride + coordinate.head * out.head_stride;
#pragma unroll
    for (int r = 0; r < kRowsPerLane; ++r) {
        const int row = coordinate.row + r * sm90::kCoreMatrixRows;
        Element* const columns = data + row * out.sequence_stride;
#pragma unroll
        for (int first = 0; first < 2 * kCount; first += kColumns) {
            uint32_t words[kQuadLanes];
#pragma unroll
            for (int i = 0; i < kQuadLanes; ++i) {
                const float* pair = output + first / 2 + 4 * i + 2 * r;
                words[i] = ptx::pack<Element>(pair[0] * inverse.factor[r], pair[1] * inverse.factor[r]);
            }
            gather_unit(words, lane);
            const int column = first + lane % kQuadLanes * sm90::ElementTraits<Element>::kUnitElements;
            if (row < params.sq && column < out.head_dim) {
                *reinterpret_cast<uint4*>(columns + column) = make_uint4(words[0], words[1], words[2], words[3]);
            }
        }
    }
}

// Writes a warp's 16 rows to shared memory, over its query.
template <class Element, int kHeadDim, int kCount>
__device__ __forceinline__ void store_rows_to_shared(uint8_t* tile, const float (&output)[kCount], int warp_row, int lane) {
    asm volatile("" : "+r"(lane));  // as in store_rows_to_global
#pragma unroll
    for (int column = 0; column < kHeadDim; column += sm90::ElementTraits<Element>::kMmaK) {
        const float* fragment = output + column / 2;
        ptx::store_matrix_x4(swizzled_unit_address<Element, kWarpgroupRows>(tile, warp_row, lane, column),
                             ptx::pack<Element>(fragment[0], fragment[1]), ptx::pack<Element>(fragment[2], fragment[3]),
                             ptx::pack<Element>(fragment[4], fragment[5]), ptx::pack<Element>(fragment[6], fragment[7]));
    }
}

// One lane stores the warp's rows. TMA drops rows past the end.
template <class Element, int kHeadDim>
__device__ __forceinline__ void tma_store_rows(const Params& params, const RowCoordinate& coordinate, const uint8_t* tile,
                                               int warp_row) {
    constexpr int kAtomColumns = sm90::ElementTraits<Element>::kSwizzleAtomColumns;
#pragma unroll
    for (int column = 0; column < kHeadDim; column += kAtomColumns) {
        const uint8_t* rows =
            tile + column / kAtomColumns * sm90::atom_column_bytes(kWarpgroupRows) + warp_row * sm90::kSwizzleBytes;
        ptx::tma_store_5d(&params.out_rows, rows, column, coordinate.row, coordinate.head, coordinate.batch, params.wrap);
    }
    ptx::tma_store_commit();
    ptx::tma_store_wait_read();
}

}  // namespace flashcore::attention
