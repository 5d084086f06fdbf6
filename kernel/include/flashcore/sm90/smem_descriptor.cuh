// Shared-memory operands of wgmma in the 128-byte swizzle that TMA writes.
//
// A column block is 64 elements (128 bytes) wide and any multiple of 8 rows high; row r of it lies at byte 128 * r, and the
// swizzle exchanges its 16-byte chunks: chunk c lies where chunk c ^ (r % 8) would. A wider tile is several blocks.
#pragma once

#include <cstdint>

#include "flashcore/ptx/mbarrier.cuh"

namespace flashcore::sm90 {

constexpr int kElementBytes = 2;
constexpr int kSwizzleAtomColumns = 64;                             // elements in a row of a column block
constexpr int kSwizzleBytes = kSwizzleAtomColumns * kElementBytes;  // the span of the swizzle
constexpr int kUnitBytes = 16;                                      // what the swizzle moves
constexpr int kUnitElements = kUnitBytes / kElementBytes;
constexpr int kCoreMatrixRows = 8;  // rows after which the pattern repeats
constexpr int kSwizzleAtomBytes = kCoreMatrixRows * kSwizzleBytes;
constexpr int kMmaK = 16;  // K of one wgmma on 16-bit elements

__host__ __device__ constexpr int atom_column_bytes(int rows) { return rows * kSwizzleBytes; }
__host__ __device__ constexpr int tile_bytes(int rows, int columns) { return rows * columns * kElementBytes; }

// The 64-bit matrix descriptor: addresses and strides count 16-byte units, layout type 1 is the 128-byte swizzle.
constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
__host__ __device__ constexpr uint64_t descriptor_units(int bytes) { return static_cast<uint64_t>(bytes / kUnitBytes); }

__device__ __forceinline__ uint64_t smem_descriptor(const void* shared, uint64_t leading_units, uint64_t stride_units) {
    constexpr uint32_t kAddressMask = 0x3FFFF;
    const uint64_t address = (ptx::shared_address(shared) & kAddressMask) / kUnitBytes;
    return address | leading_units << 16 | stride_units << 32 | kSwizzle128;
}

// K runs along a row (Q and K). The leading offset is unused under a swizzle; the stride joins groups of 8 rows.
__device__ __forceinline__ uint64_t k_major_descriptor(const void* shared) {
    return smem_descriptor(shared, 1, descriptor_units(kSwizzleAtomBytes));
}

// K runs down the rows (V). The leading offset joins column blocks, the stride joins groups of 8 rows.
__device__ __forceinline__ uint64_t mn_major_descriptor(const void* shared, int rows) {
    return smem_descriptor(shared, descriptor_units(atom_column_bytes(rows)), descriptor_units(kSwizzleAtomBytes));
}

// Units from step 0 to step `step` of the K dimension.
__host__ __device__ constexpr uint64_t k_major_offset(int k_step, int rows) {
    constexpr int kKStepsPerAtom = kSwizzleAtomColumns / kMmaK;
    return descriptor_units(k_step % kKStepsPerAtom * kMmaK * kElementBytes + k_step / kKStepsPerAtom * atom_column_bytes(rows));
}
__host__ __device__ constexpr uint64_t mn_major_offset(int k_step) { return descriptor_units(k_step * kMmaK * kSwizzleBytes); }

}  // namespace flashcore::sm90
