// Shared-memory operands of wgmma in the 128-byte swizzle that TMA writes.
//
// A column block is 64 elements (128 bytes) wide and any multiple of 8 rows high; row r of it lies at byte 128 * r, and the
// swizzle exchanges its 16-byte chunks: chunk c lies where chunk c ^ (r % 8) would. A wider tile is several blocks.
#pragma once

#include <cstdint>

#include "flashcore/ptx/mbarrier.cuh"

namespace flashcore::sm90 {

constexpr int kElementBytes = 2;
constexpr int kBlockColumns = 64;                         // elements in a row of a column block
constexpr int kRowBytes = kBlockColumns * kElementBytes;  // the span of the swizzle
constexpr int kChunkBytes = 16;                           // what the swizzle moves
constexpr int kChunkElements = kChunkBytes / kElementBytes;
constexpr int kGroupRows = 8;  // rows after which the pattern repeats
constexpr int kGroupBytes = kGroupRows * kRowBytes;
constexpr int kMmaDepth = 16;  // K of one wgmma on 16-bit elements

__host__ __device__ constexpr int block_bytes(int rows) { return rows * kRowBytes; }
__host__ __device__ constexpr int tile_bytes(int rows, int columns) { return rows * columns * kElementBytes; }

// The 64-bit matrix descriptor: addresses and strides count 16-byte units, layout type 1 is the 128-byte swizzle.
constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
__host__ __device__ constexpr uint64_t descriptor_units(int bytes) { return static_cast<uint64_t>(bytes / kChunkBytes); }

__device__ __forceinline__ uint64_t descriptor(const void* shared, uint64_t leading_units, uint64_t stride_units) {
    constexpr uint32_t kAddressMask = 0x3FFFF;
    const uint64_t address = (ptx::shared_address(shared) & kAddressMask) / kChunkBytes;
    return address | leading_units << 16 | stride_units << 32 | kSwizzle128;
}

// K runs along a row (Q and K). The leading offset is unused under a swizzle; the stride joins groups of 8 rows.
__device__ __forceinline__ uint64_t row_operand(const void* shared) {
    return descriptor(shared, 1, descriptor_units(kGroupBytes));
}

// K runs down the rows (V). The leading offset joins column blocks, the stride joins groups of 8 rows.
__device__ __forceinline__ uint64_t column_operand(const void* shared, int rows) {
    return descriptor(shared, descriptor_units(block_bytes(rows)), descriptor_units(kGroupBytes));
}

// Units from step 0 to step `step` of the K dimension.
__host__ __device__ constexpr uint64_t row_step(int step, int rows) {
    constexpr int kStepsPerBlock = kBlockColumns / kMmaDepth;
    return descriptor_units(step % kStepsPerBlock * kMmaDepth * kElementBytes + step / kStepsPerBlock * block_bytes(rows));
}
__host__ __device__ constexpr uint64_t column_step(int step) { return descriptor_units(step * kMmaDepth * kRowBytes); }

}  // namespace flashcore::sm90
