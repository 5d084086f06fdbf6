// Shared-memory descriptors of wgmma for the 128-byte swizzle that TMA writes.
//
// A swizzle atom is 8 rows of 128 bytes, which are 64 elements of 16 bits. Atoms below each other form a column. In a column, row
// r starts after r * 128 bytes, and the swizzle stores 16-byte unit u of that row at unit u ^ (r % 8). A wider tile has several
// columns next to each other.
#pragma once

#include <cstdint>

#include "flashcore/ptx/mbarrier.cuh"
#include "flashcore/sm90/element_traits.cuh"

namespace flashcore::sm90 {

constexpr int kCoreMatrixRows = 8;  // the swizzle repeats after these rows
constexpr int kSwizzleAtomBytes = kCoreMatrixRows * kSwizzleBytes;

__host__ __device__ constexpr int atom_column_bytes(int rows) { return rows * kSwizzleBytes; }
template <class Element>
__host__ __device__ constexpr int tile_bytes(int rows, int columns) {
    return rows * columns * ElementTraits<Element>::kBytes;
}

// The 64-bit matrix descriptor. Addresses and strides count 16-byte units. Layout type 1 is the 128-byte swizzle.
constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
__host__ __device__ constexpr uint64_t descriptor_units(int bytes) { return static_cast<uint64_t>(bytes / kUnitBytes); }

__device__ __forceinline__ uint64_t smem_descriptor(const void* shared, uint64_t leading_units, uint64_t stride_units) {
    constexpr uint32_t kAddressMask = 0x3FFFF;
    const uint64_t address = (ptx::shared_address(shared) & kAddressMask) / kUnitBytes;
    return address | leading_units << 16 | stride_units << 32 | kSwizzle128;
}

// K is contiguous (Q and K). The swizzle ignores the leading offset. The stride joins swizzle atoms below each other.
__device__ __forceinline__ uint64_t k_major_descriptor(const void* shared) {
    return smem_descriptor(shared, 1, descriptor_units(kSwizzleAtomBytes));
}

// M or N is contiguous (V). The leading offset joins columns of atoms, the stride joins atoms below each other.
__device__ __forceinline__ uint64_t mn_major_descriptor(const void* shared, int rows) {
    return smem_descriptor(shared, descriptor_units(atom_column_bytes(rows)), descriptor_units(kSwizzleAtomBytes));
}

// Offset of K step `k_step` from K step 0, in 16-byte units.
__host__ __device__ constexpr uint64_t k_major_offset(int k_step, int rows) {
    constexpr int kKStepsPerAtom = kSwizzleBytes / kMmaKBytes;
    return descriptor_units(k_step % kKStepsPerAtom * kMmaKBytes + k_step / kKStepsPerAtom * atom_column_bytes(rows));
}
template <class Element>
__host__ __device__ constexpr uint64_t mn_major_offset(int k_step) {
    return descriptor_units(k_step * ElementTraits<Element>::kMmaK * kSwizzleBytes);
}

}  // namespace flashcore::sm90
