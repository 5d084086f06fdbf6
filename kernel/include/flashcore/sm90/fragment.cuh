// Fragments of mma.sync, and of wgmma, which gives each of its four warps 16 rows: who holds what, and where ldmatrix finds it in
// a swizzled column block (sm90/operand.cuh).
//
// A lane holds two rows of 16 accumulator rows, r = lane / 4 and r + 8: of every four consecutive accumulators, which cover eight
// columns, the first two belong to r and the last two to r + 8, in columns 2 (lane % 4) and the next. Four neighbouring lanes (a
// quad) share both rows.
#pragma once

#include <cstdint>

#include "flashcore/sm90/smem_descriptor.cuh"

namespace flashcore::sm90 {

constexpr int kWarpThreads = 32;
constexpr unsigned kFullWarpMask = 0xFFFFFFFFu;
constexpr int kQuadLanes = 4;
constexpr int kRowsPerLane = 2;
constexpr int kMmaM = 16;
constexpr int kMmaN = 8;

__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xFF800000); }

__device__ __forceinline__ float quad_max(float value) {
    value = fmaxf(value, __shfl_xor_sync(kFullWarpMask, value, 1));
    return fmaxf(value, __shfl_xor_sync(kFullWarpMask, value, 2));
}

__device__ __forceinline__ float quad_sum(float value) {
    value += __shfl_xor_sync(kFullWarpMask, value, 1);
    return value + __shfl_xor_sync(kFullWarpMask, value, 2);
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int lane = 1; lane < kWarpThreads; lane *= 2) value = fmaxf(value, __shfl_xor_sync(kFullWarpMask, value, lane));
    return value;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int lane = 1; lane < kWarpThreads; lane *= 2) value += __shfl_xor_sync(kFullWarpMask, value, lane);
    return value;
}

// Byte offset, from the first of 16 rows of a column block, of the chunk that a lane names for ldmatrix.x4: lanes 0-15 the rows
// of the left 8 columns, lanes 16-31 those of the right 8. The rows begin at a multiple of 8, so the swizzle depends on the lane
// alone.
struct LdmatrixOffset {
    uint32_t row;   // byte offset of the lane's row
    uint32_t unit;  // byte offset of its chunk within the row, for the first 16 columns

    __device__ __forceinline__ explicit LdmatrixOffset(int lane)
        : row(lane % kMmaM * kSwizzleBytes), unit((lane / kMmaM ^ lane % kCoreMatrixRows) * kUnitBytes) {}

    // `step`: which 16 of the block's 64 columns. A constant, so that the sum is one exclusive or.
    __device__ __forceinline__ uint32_t operator()(int k_step) const { return row + (unit ^ k_step * (2 * kUnitBytes)); }
};

}  // namespace flashcore::sm90
