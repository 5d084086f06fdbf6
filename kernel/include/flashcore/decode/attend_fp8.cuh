// How a consumer warp attends to keys of E4M3. Part of consumer.cuh.
#pragma once

#include "flashcore/decode/consumer.cuh"

namespace flashcore::decode {

// Attends to a group of keys of one head, in parts of 16 that may be in different boxes. More keys at once hide more latency,
// and share a max.
template <class Tuning>
__device__ __forceinline__ void Consumer<Tuning>::attend_fp8(const uint32_t (&offsets)[kGroupParts], int first_key) {
    const int key = first_key + lane_ % sm90::kQuadLanes * 2;
    float scores[2 * kGroupParts][4] = {};
#pragma unroll
    for (int step = 0; step < kKSteps / 2; ++step) {
#pragma unroll
        for (int part = 0; part < kGroupParts; ++part) {
            uint32_t k[4];
            ptx::load_matrix_x4(k, ptx::shared_address(shared_.k[ring_.slot]) + offsets[part] + fp8_offset(step));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                ptx::mma_16x8x16<MmaElement>(scores[2 * part + i % 2], query_[2 * step + i / 2], fp8_pair_to_fp16(k[i]),
                                             fp8_high_pair_to_fp16(k[i]));
            }
        }
    }
    mask(scores, key);
    softmax(scores);
#pragma unroll
    for (int part = 0; part < kGroupParts; ++part) {
        uint32_t probabilities[4];
        pack_probabilities(probabilities, scores, 2 * part);
        const uint32_t exists[2] = {pair_mask(key + part * kMmaKeys), pair_mask(key + part * kMmaKeys + sm90::kMmaN)};
#pragma unroll
        for (int step = 0; step < kKSteps / 2; ++step) {
            uint32_t v[4];
            ptx::load_matrix_x4_transposed(v, ptx::shared_address(shared_.v[ring_.slot]) + offsets[part] + fp8_offset(step));
            attend_to_fp8_values(step, v, probabilities, exists);
        }
    }
}

// A transposed unit holds the columns 2n and 2n + 1 of two keys in each lane. One mma takes the even columns, one the odd.
template <class Tuning>
__device__ __forceinline__ void Consumer<Tuning>::attend_to_fp8_values(int step, const uint32_t (&v)[4], const uint32_t (&probabilities)[4],
                                                                       const uint32_t (&exists)[2]) {
    constexpr uint32_t kSelectors[2] = {0x6420, 0x7531};  // even and odd bytes of two words
#pragma unroll
    for (int unit = 0; unit < 2; ++unit) {
#pragma unroll
        for (int parity = 0; parity < 2; ++parity) {
            const uint32_t keys =
                __byte_perm(v[unit * 2] & exists[0], v[unit * 2 + 1] & exists[1], kSelectors[parity]);
            ptx::mma_16x8x16<MmaElement>(state_.output[2 * (2 * step + unit) + parity], probabilities,
                                         fp8_pair_to_fp16(keys), fp8_high_pair_to_fp16(keys));
        }
    }
}

}  // namespace flashcore::decode
