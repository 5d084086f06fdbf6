// Transposes and permutes values, and rounds them to E4M3. One CTA per block of keys of a head.
#pragma once

#include <type_traits>

#include "flashcore/attention/fp8.cuh"
#include "flashcore/attention/transpose_params.h"
#include "flashcore/core/element.cuh"
#include "flashcore/core/launch.cuh"

namespace flashcore::attention {

constexpr int kTransposePitch = kValueColumns + 4;  // bytes of a key in shared memory, so that keys begin in different banks

template <class Source>
__device__ __forceinline__ uint32_t load_four(const Source* row, float factor) {
    if constexpr (std::is_same_v<Source, E4m3>) {
        return *reinterpret_cast<const uint32_t*>(row);
    } else {
        const uint2 pairs = *reinterpret_cast<const uint2*>(row);
        const Source* x = reinterpret_cast<const Source*>(&pairs);
        return ptx::pack_e4m3(__fdiv_rn(static_cast<float>(x[0]), factor), __fdiv_rn(static_cast<float>(x[1]), factor),
                              __fdiv_rn(static_cast<float>(x[2]), factor), __fdiv_rn(static_cast<float>(x[3]), factor));
    }
}

template <class Source, int kThreads>
__device__ __forceinline__ void transpose_values(const TransposeParams& params) {
    __shared__ __align__(16) uint8_t tile[kValueKeys * kTransposePitch];
    const int block = static_cast<int>(blockIdx.x) % params.blocks;
    const int sequence = static_cast<int>(blockIdx.x) / params.blocks;
    const int batch = sequence / params.kv_heads;
    const int head = sequence - batch * params.kv_heads;
    const float factor = std::is_same_v<Source, E4m3> ? 1.0f : descale(params.v_descale, batch, head);
    const Source* v = static_cast<const Source*>(params.v) + batch * params.batch_stride + head * params.head_stride;
    constexpr int kWords = kValueColumns / 4;
#pragma unroll 8
    for (int i = threadIdx.x; i < kValueKeys * kWords; i += kThreads) {
        const int key = i / kWords;
        const int word = i % kWords;
        const int position = block * kValueKeys + key;
        const uint32_t four = position < params.sk ? load_four(v + position * params.sequence_stride + 4 * word, factor) : 0u;
        *reinterpret_cast<uint32_t*>(tile + key * kTransposePitch + 4 * word) = four;
    }
    __syncthreads();
    constexpr int kPlaces = kValueKeys * kValueColumns / kThreads;  // of a thread, in one row
    const int row = static_cast<int>(threadIdx.x) % kValueColumns;
    const int first = static_cast<int>(threadIdx.x) / kValueColumns * kPlaces;
    const uint8_t* column = tile + value_column(row);
    uint8_t* out = params.values + (static_cast<int64_t>(sequence) * kValueColumns + row) * params.blocks * kValueKeys +
                   block * kValueKeys + first;
#pragma unroll
    for (int unit = 0; unit < kPlaces; unit += 16) {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            words[i] = 0;
#pragma unroll
            for (int byte = 0; byte < 4; ++byte) {
                const uint32_t value = column[(first + value_key(unit + 4 * i + byte)) * kTransposePitch];
                words[i] |= value << 8 * byte;
            }
        }
        *reinterpret_cast<uint4*>(out + unit) = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

}  // namespace flashcore::attention
