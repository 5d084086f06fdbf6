// Scales of single keys and values of a cache of E4M3.
//
// They travel with their tile. The last stage of the ring then has no tile, but the scales of the others, as shared memory is full. A lane
// has four keys of each 32, eight apart: those are neighbours here.
#pragma once

#include <cstdint>

#include "flashcore/decode/params.h"
#include "flashcore/decode/shared_storage.cuh"
#include "flashcore/sm90/fragment.cuh"

namespace flashcore::decode {

__device__ __forceinline__ const float* key_scale_address(const KeyScale& scale, int64_t page, int64_t key, int64_t head) {
    return scale.data + page * scale.page_stride + key * scale.key_stride + head * scale.head_stride;
}
__device__ __forceinline__ float key_scale_of(const KeyScale& scale, int page, int key, int head) {
    return scale.data == nullptr ? 1.0f : __ldg(key_scale_address(scale, page, key, head));
}

// To the next of the first stages of a ring.
template <int kStages, int kSlots>
__device__ __forceinline__ void advance(sm90::RingPosition<kSlots>& ring) {
    if (++ring.slot == kStages) {
        ring.slot = 0;
        ring.parity ^= 1;
    }
}

// Where the scale of a tile's key is.
__device__ __forceinline__ int key_scale_place(int key) {
    return (key & ~31) | (key & 7) << 2 | (key >> 3 & 3);
}

// Those of a stage.
template <class Tuning>
__device__ __forceinline__ float* k_scales_of(SharedStorage<Tuning>& shared, int stage) {
    static_assert(used_stages(Tuning::config) * static_cast<int>(sizeof(float)) <= key_bytes(Tuning::config), "all must fit into a stage");
    return reinterpret_cast<float*>(shared.k[used_stages(Tuning::config)]) + stage * Tuning::config.tile_keys;
}
template <class Tuning>
__device__ __forceinline__ float* v_scales_of(SharedStorage<Tuning>& shared, int stage) {
    return reinterpret_cast<float*>(shared.v[used_stages(Tuning::config)]) + stage * Tuning::config.tile_keys;
}

}  // namespace flashcore::decode
