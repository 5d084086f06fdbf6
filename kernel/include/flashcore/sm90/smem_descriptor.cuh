// Shared-memory descriptors of wgmma for the 128-byte swizzle that TMA writes.
//
// A swizzle atom is 8 rows of 64 elements (128 bytes). Atoms below each other form a column. Row r of a column starts at byte 128
// * r, and the swizzle stores 16-byte unit u of that row at unit u ^ (r % 8). A wider tile has several columns next to each
// other.
#pragma once

#include <cstdint>

#include "flashcore/ptx/mbarrier.cuh"

namespace flashcore::sm90 {

constexpr int kElementBytes = 2;
constexpr int kSwizzleAtomColumns = 64;                             // elements in a row of a swizzle atom
constexpr int kSwizzleBytes = kSwizzleAtomColumns * kElementBytes;  // the width of the swizzle
constexpr int kUnitBytes = 16;                                      // the swizzle moves whole units
constexpr int kUnitElements = kUnitBytes / kElementBytes;
constexpr int kCoreMatrixRows = 8;  // the swizzle repeats after these rows
constexpr int kSwizzleAtomBytes = kCoreMatrixRows * kSwizzleBytes;
constexpr int kMmaK = 16;  // K of one mma on 16-bit elements

__host__ __device__ constexpr int atom_column_bytes(int rows) { return rows * kSwizzleBytes; }
__host__ __device__ constexpr int tile_bytes(int rows, int columns) { return rows * columns * kElementBytes; }

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
    constexpr int kKStepsPerAtom = kSwizzleAtomColumns / kMmaK;
    return descriptor_units(k_step % kKStepsPerAtom * kMmaK * kElementBytes + k_step / kKStepsPerAtom * atom_column_bytes(rows));
}
__host__ __device__ constexpr uint64_t mn_major_offset(int k_step) { return descriptor_units(k_step * kMmaK * kSwizzleBytes); }

}  // namespace flashcore::sm90
