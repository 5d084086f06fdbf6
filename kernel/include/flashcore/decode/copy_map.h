// Which rows of a tile the lanes of the producer warps copy with cp.async, and where to. Host and device.
//
// A row is a key of one head. The rows of a tile are the keys of its first head, then those of the next. Neighbouring lanes copy
// neighbouring units of 16 bytes, so that a warp reads whole rows, and writes shared memory without bank conflicts.
#pragma once

#include <cstdint>

#include "flashcore/decode/config.h"

namespace flashcore::decode {

template <class Tuning>
struct CopyMap {
    static constexpr Config kConfig = Tuning::config;
    static constexpr int kLanes = 32;
    static constexpr int kUnitBytes = 16;
    static constexpr int kSwizzleRows = 8;  // the swizzle repeats after these rows
    static constexpr int kAtomColumnBytes = 128;
    static constexpr int kWarps = kConfig.producer_warps;

    static constexpr int kRowUnits = key_bytes(kConfig) / kUnitBytes;
    static constexpr int kRowsAtOnce = kLanes / kRowUnits;                      // by a warp
    static constexpr int kCopies = kConfig.tile_keys / (kRowsAtOnce * kWarps);  // of a warp, for the keys and for the values
    static constexpr int kRows = kCopies * kRowsAtOnce;                         // of a warp
    static constexpr int kRowsPerLane = (kRows + kLanes - 1) / kLanes;          // whose addresses a lane computes
    static constexpr int kAtomRowBytes = key_bytes(kConfig) < kAtomColumnBytes ? key_bytes(kConfig) : kAtomColumnBytes;
    static constexpr int kAtomUnits = kAtomRowBytes / kUnitBytes;
    // The copies after which the rows of a warp are at the same place in the swizzle, and the bytes between them.
    static constexpr int kPeriod = kWarps * kRowsAtOnce < kSwizzleRows ? kSwizzleRows / (kWarps * kRowsAtOnce) : 1;
    static constexpr int kPeriodBytes = kPeriod * kWarps * kRowsAtOnce * kAtomRowBytes;

    static_assert(kLanes % kRowUnits == 0, "a warp copies whole rows");
    static_assert(kCopies * kRowsAtOnce * kWarps == kConfig.tile_keys, "the warps divide a tile evenly");
    static_assert(kRowUnits == kAtomUnits || max_heads(kConfig) == 1, "a tile of several heads has one column of swizzle atoms");

    // The warps take turns, so that they read neighbouring rows at the same time.
    FLASHCORE_HOST_DEVICE static constexpr int tile_row(int warp, int row_of_warp) {
        return (row_of_warp / kRowsAtOnce * kWarps + warp) * kRowsAtOnce + row_of_warp % kRowsAtOnce;
    }

    // The row of the tile whose address a lane computes as its `i`-th.
    FLASHCORE_HOST_DEVICE static constexpr int row_of_lane(int warp, int lane, int i) { return tile_row(warp, lane + i * kLanes); }

    // In copy `i`, a lane copies unit `lane % kRowUnits` of this row of the tile.
    FLASHCORE_HOST_DEVICE static constexpr int row_of_copy(int warp, int lane, int i) {
        return tile_row(warp, i * kRowsAtOnce) + lane / kRowUnits;
    }
    // Which lane has computed the address of that row, and as its which.
    FLASHCORE_HOST_DEVICE static constexpr int source_lane(int lane, int i) { return i * kRowsAtOnce % kLanes + lane / kRowUnits; }
    FLASHCORE_HOST_DEVICE static constexpr int source_row(int i) { return i * kRowsAtOnce / kLanes; }

    // Byte offset in a tile, by the swizzle of TMA (sm90/smem_descriptor.cuh). That of 64 bytes moves a unit by half the row number.
    FLASHCORE_HOST_DEVICE static constexpr uint32_t shared_offset(int tile_row, int unit) {
        const int phase = tile_row % kSwizzleRows / (kAtomColumnBytes / kAtomRowBytes);
        return static_cast<uint32_t>(unit / kAtomUnits * (kConfig.tile_keys * kAtomColumnBytes) + tile_row * kAtomRowBytes +
                                     (unit % kAtomUnits ^ phase) * kUnitBytes);
    }
};

}  // namespace flashcore::decode
