// Transposes and permutes values of any number of 64 columns for E4M3 (attention/value_order.h). One CTA per 128 keys and kColumns.
#pragma once

#include "flashcore/attention/e4m3/transpose_params.h"
#include "flashcore/attention/transpose_values.cuh"

namespace flashcore::attention::e4m3 {

template <class Source, int kThreads, int kColumns>
__device__ __forceinline__ void transpose_values(const TransposeParams& params) {
    constexpr int kPitch = kColumns + 4;  // bytes of a key in shared memory, so that keys begin in different banks
    __shared__ __align__(16) uint8_t tile[kValueKeys * kPitch];
    const int parts = params.head_dim / kColumns;
    const int part = static_cast<int>(blockIdx.x) % parts;
    const int number = static_cast<int>(blockIdx.x) / parts;
    const int block = number % params.blocks;
    const int sequence = number / params.blocks;
    const int batch = sequence / params.kv_heads;
    const int head = sequence - batch * params.kv_heads;
    const float factor = std::is_same_v<Source, E4m3> ? 1.0f : descale(params.v_descale, batch, head);
    const Source* v =
        static_cast<const Source*>(params.v) + batch * params.batch_stride + head * params.head_stride + part * kColumns;
    constexpr int kWords = kColumns / 4;
#pragma unroll 8
    for (int i = threadIdx.x; i < kValueKeys * kWords; i += kThreads) {
        const int key = i / kWords;
        const int word = i % kWords;
        const int position = block * kValueKeys + key;
        const uint32_t four = position < params.sk ? load_four(v + position * params.sequence_stride + 4 * word, factor) : 0u;
        *reinterpret_cast<uint32_t*>(tile + key * kPitch + 4 * word) = four;
    }
    __syncthreads();
    constexpr int kPlaces = kValueKeys * kColumns / kThreads;  // of a thread, in one row
    const int row = static_cast<int>(threadIdx.x) % kColumns;
    const int first = static_cast<int>(threadIdx.x) / kColumns * kPlaces;
    const uint8_t* column = tile + value_column(row);
    uint8_t* out = params.values +
                   (static_cast<int64_t>(sequence) * params.head_dim + part * kColumns + row) * params.blocks * kValueKeys +
                   block * kValueKeys + first;
#pragma unroll
    for (int unit = 0; unit < kPlaces; unit += 16) {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            words[i] = 0;
#pragma unroll
            for (int byte = 0; byte < 4; ++byte) {
                const uint32_t value = column[(first + value_key(unit + 4 * i + byte)) * kPitch];
                words[i] |= value << 8 * byte;
            }
        }
        *reinterpret_cast<uint4*>(out + unit) = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

}  // namespace flashcore::attention::e4m3
