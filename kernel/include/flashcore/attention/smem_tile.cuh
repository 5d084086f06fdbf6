// A warp's 16 rows of a tile between shared memory and registers.
#pragma once

#include <cstdint>

#include "flashcore/attention/config.h"
#include "flashcore/ptx/math.cuh"
#include "flashcore/sm90/smem_descriptor.cuh"

namespace flashcore::attention {

// Address of the 16-byte chunk that this lane names for a 16 x 16 block of a warp's rows, in the swizzle of the copy engine:
// lanes 0-15 name the rows of the left 8 columns, lanes 16-31 those of the right 8. As ldmatrix and stmatrix x4 want it.
template <int kTileRows>
__device__ __forceinline__ uint32_t swizzled_unit_address(const uint8_t* tile, int warp_row, int lane, int column) {
    const int row = warp_row + lane % 16;
    const int unit = column % sm90::kSwizzleAtomColumns / sm90::kUnitElements + lane / 16;
    return ptx::shared_address(tile) + row * sm90::kSwizzleBytes +
           column / sm90::kSwizzleAtomColumns * sm90::atom_column_bytes(kTileRows) +
           (unit ^ row % sm90::kCoreMatrixRows) * sm90::kUnitBytes;
}

// Reads a warp's 16 rows of a query tile as the A operand of wgmma.
template <int kHeadDim, int kTileRows>
__device__ __forceinline__ void load_query_fragment(const uint8_t* tile, uint32_t (&operand)[kHeadDim / 4], int warp_row,
                                                    int lane) {
    asm volatile("" : "+r"(lane));  // addresses are worked out here, not kept in registers throughout the main loop
#pragma unroll
    for (int column = 0; column < kHeadDim; column += sm90::kMmaK) {
        ptx::load_matrix_x4(operand + column / 4, swizzled_unit_address<kTileRows>(tile, warp_row, lane, column));
    }
}

}  // namespace flashcore::attention
