// Moves a warp's 16 rows of a tile between shared memory and registers.
#pragma once

#include <cstdint>

#include "flashcore/attention/config.h"
#include "flashcore/ptx/math.cuh"
#include "flashcore/sm90/smem_descriptor.cuh"

namespace flashcore::attention {

// Address of the swizzled 16-byte unit that this lane gives to ldmatrix or stmatrix x4 for 16 x 16 elements of a warp's rows.
// Lanes 0-15 address the left 8 columns, lanes 16-31 the right 8.
template <class Element, int kTileRows>
__device__ __forceinline__ uint32_t swizzled_unit_address(const uint8_t* tile, int warp_row, int lane, int column) {
    using Traits = sm90::ElementTraits<Element>;
    const int row = warp_row + lane % 16;
    const int unit = column % Traits::kSwizzleAtomColumns / Traits::kUnitElements + lane / 16;
    return ptx::shared_address(tile) + row * sm90::kSwizzleBytes +
           column / Traits::kSwizzleAtomColumns * sm90::atom_column_bytes(kTileRows) +
           (unit ^ row % sm90::kCoreMatrixRows) * sm90::kUnitBytes;
}

// Reads a warp's 16 rows of a query tile as the A operand of wgmma.
template <class Element, int kHeadDim, int kTileRows>
__device__ __forceinline__ void load_query_fragment(const uint8_t* tile, uint32_t (&operand)[kHeadDim / 4], int warp_row,
                                                    int lane) {
    asm volatile("" : "+r"(lane));  // compute addresses here, do not keep them in registers during the main loop
#pragma unroll
    for (int column = 0; column < kHeadDim; column += sm90::ElementTraits<Element>::kMmaK) {
        ptx::load_matrix_x4(operand + column / 4, swizzled_unit_address<Element, kTileRows>(tile, warp_row, lane, column));
    }
}

}  // namespace flashcore::attention
