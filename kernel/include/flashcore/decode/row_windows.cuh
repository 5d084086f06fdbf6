// Windows of a consumer warp's rows: which keys each row sees, and the cap of their scores. Part of consumer.cuh.
#pragma once

#include "flashcore/decode/consumer.cuh"

namespace flashcore::decode {

// Keeps a split in shared memory, because registers are short in the loop over its keys. The warps of a split meet before its
// end is over, and each has a place of its own.
template <class Tuning>
__device__ __forceinline__ void Consumer<Tuning>::hold(const SplitOf<Tuning>& split, const FixupInfo& fixup) {
    __syncwarp();
    if constexpr (holds_window(kConfig)) {
        const SplitWindow window = find_window(split);
        HeldSplitOf<Tuning>& held = shared_.held[warp_];
        if (lane_ == 0) {
            held.split = split;
            held.fixup = fixup;
            held.window.split = window;
        }
    } else {
        if (lane_ == 0) shared_.held[warp_] = {split, fixup};
    }
    __syncwarp();
}

// A chunk needs to know how many keys are before the first tile.
template <class Tuning>
__device__ __forceinline__ SplitWindow Consumer<Tuning>::find_window(const SplitOf<Tuning>& split) const {
    const bool in_chunks = params_.local.window.chunk.value > 0;
    const int skipped = in_chunks ? SequenceKeys{&params_.cache}(split.sequence) - split.keys : 0;
    return {skipped, range_of(skipped, split.keys, split.keys - packed_rows<Tuning>(params_, split).sq).first};
}

template <class Tuning>
__device__ __forceinline__ KeyRange Consumer<Tuning>::range_of(int skipped, int keys, int position) const {
    const KeyRange range = visible_range(params_.local.window, skipped + position, skipped + keys);
    return {range.first - skipped, range.last - skipped};
}

template <class Tuning>
__device__ __forceinline__ void Consumer<Tuning>::place_row(int position, int r) {
    if constexpr (!holds_window(kConfig)) {
        window_.position[r] = position;
    } else if (lane_ % sm90::kQuadLanes == 0) {
        shared_.held[warp_].window.position[lane_ / sm90::kQuadLanes + r * sm90::kCoreMatrixRows] = position;
    }
}

template <class Tuning>
__device__ __forceinline__ int Consumer<Tuning>::position_of(int r) const {
    if constexpr (holds_window(kConfig)) {
        return shared_.held[warp_].window.position[lane_ / sm90::kQuadLanes + r * sm90::kCoreMatrixRows];
    } else {
        return window_.position[r];
    }
}

template <class Tuning>
__device__ __forceinline__ SplitWindow Consumer<Tuning>::split_window() const {
    if constexpr (holds_window(kConfig)) {
        return shared_.held[warp_].window.split;
    } else {
        return split_window_;
    }
}

template <class Tuning>
template <int kTiles>
__device__ __forceinline__ void Consumer<Tuning>::mask_window(float (&scores)[kTiles][4], int key) const {
    const int skipped = split_window().skipped;
#pragma unroll
    for (int r = 0; r < sm90::kRowsPerLane; ++r) {
        const KeyRange range = range_of(skipped, keys_, position_of(r));
#pragma unroll
        for (int i = 0; i < 2 * kTiles; ++i) {
            const int column = key + i / 2 * sm90::kMmaN + i % 2;
            float& score = scores[i / 2][2 * r + i % 2];
            score = range.first <= column && column < range.last ? limited_score(score) : sm90::minus_infinity();
        }
    }
}

template <class Tuning>
__device__ __forceinline__ float Consumer<Tuning>::limited_score(float score) const {
    if constexpr (kConfig.local) {
        if (params_.local.cap > 0.0f) return capped(score, params_.local.cap, params_.local.cap_factor);
    }
    return score * params_.score_sign;
}

}  // namespace flashcore::decode
