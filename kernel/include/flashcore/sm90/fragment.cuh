// Register fragments of mma.sync and wgmma (16 rows per warp), and their ldmatrix addresses in a swizzled tile
// (sm90/smem_descriptor.cuh).
//
// A lane holds two of the 16 accumulator rows, r = lane / 4 and r + 8. Each four consecutive accumulators cover eight columns.
// The first two belong to row r, the last two to row r + 8, in columns 2 (lane % 4) and 2 (lane % 4) + 1. Four neighbouring lanes
// (a quad) share both rows.
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

// Byte offset of the 16-byte unit that a lane addresses for ldmatrix.x4, from the first of 16 rows of a column of swizzle atoms.
// Lanes 0-15 address the left 8 columns, lanes 16-31 the right 8. The rows begin at a multiple of 8, so the swizzle depends only
// on the lane.
struct LdmatrixOffset {
    uint32_t row;   // byte offset of the lane's row
    uint32_t unit;  // byte offset of its unit within the row, for the first 16 columns

    __device__ __forceinline__ explicit LdmatrixOffset(int lane)
        : row(lane % kMmaM * kSwizzleBytes), unit((lane / kMmaM ^ lane % kCoreMatrixRows) * kUnitBytes) {}

    // `k_step` selects 16 of the 64 columns. It is a constant, so the addition is one exclusive or.
    __device__ __forceinline__ uint32_t operator()(int k_step) const { return row + (unit ^ k_step * (2 * kUnitBytes)); }
};

}  // namespace flashcore::sm90
