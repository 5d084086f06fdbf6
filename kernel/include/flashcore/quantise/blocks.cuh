// Rounds blocks of rows to E4M3 with a factor of their own, in one pass. A CTA takes a block of a head, and a warp its rows.
//
// The largest magnitude of a block needs no other CTA. So rows stay in registers between the Hadamard transform and the rounding.
#pragma once

#include <cstdint>

#include "flashcore/attention/value_order.h"
#include "flashcore/core/element.cuh"
#include "flashcore/core/launch.cuh"
#include "flashcore/ptx/math.cuh"
#include "flashcore/quantise/row_length.cuh"

namespace flashcore::quantise {

constexpr int kBlockThreads = 512;
constexpr int kBlockWarps = kBlockThreads / 32;
constexpr int kMostRows = 128;  // of a block
constexpr int kWarpRows = kMostRows / kBlockWarps;
constexpr int kSignWords = 8;
constexpr float kLargestE4m3 = 448.0f;
constexpr float kSmallestFactor = 1e-30f;

struct BlockParams {
    const void* x;
    int64_t batch_stride;
    int64_t row_stride;
    int64_t head_stride;
    uint8_t* values;
    float* scale;  // (batch, heads, blocks)
    int rows;
    int heads;
    int head_dim;
    int blocks;
    int block_rows;  // 64 or 128
    int transform;
    int keeps_length;  // of each row (quantise/row_length.cuh)
    uint32_t signs[kSignWords];
};

struct BlockPosition {
    int block, batch, head;
};
__device__ __forceinline__ BlockPosition locate_block(const BlockParams& params) {
    const int block = static_cast<int>(blockIdx.x) % params.blocks;
    const int sequence = static_cast<int>(blockIdx.x) / params.blocks;
    const int batch = sequence / params.heads;
    return {block, batch, sequence - batch * params.heads};
}

// A lane has neighbouring columns of a row.
template <class Source, int kColumns>
__device__ __forceinline__ void load_columns(float (&x)[kColumns], const Source* columns) {
    uint32_t words[kColumns / 2];
    if constexpr (kColumns == 2) {
        words[0] = __ldg(reinterpret_cast<const uint32_t*>(columns));
    } else if constexpr (kColumns == 4) {
        const uint2 pairs = __ldg(reinterpret_cast<const uint2*>(columns));
        words[0] = pairs.x;
        words[1] = pairs.y;
    } else {
        const uint4 pairs = __ldg(reinterpret_cast<const uint4*>(columns));
        words[0] = pairs.x;
        words[1] = pairs.y;
        words[2] = pairs.z;
        words[3] = pairs.w;
    }
    const Source* elements = reinterpret_cast<const Source*>(words);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) x[j] = static_cast<float>(elements[j]);
}

// The Hadamard transform of a row, after the signs. As quantise/quantise.cuh, for any number of columns.
template <int kColumns>
__device__ __forceinline__ void transform_columns(float (&x)[kColumns], const uint32_t (&signs)[kSignWords], int lane) {
    const uint32_t bits = signs[lane * kColumns / 32] >> lane * kColumns % 32;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) x[j] = bits >> j & 1u ? -x[j] : x[j];
#pragma unroll
    for (int step = 1; step < kColumns; step *= 2) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
            if ((j & step) != 0) continue;
            const float sum = x[j] + x[j + step];
            x[j + step] = x[j] - x[j + step];
            x[j] = sum;
        }
    }
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
            const float other = __shfl_xor_sync(0xffffffffu, x[j], step);
            x[j] = lane & step ? other - x[j] : x[j] + other;
        }
    }
    constexpr float kRoot = kColumns == 4 ? 0.08838834764831845f : kColumns == 2 ? 0.125f : 0.0625f;  // 1 / sqrt(32 kColumns)
#pragma unroll
    for (int j = 0; j < kColumns; ++j) x[j] *= kRoot;
}

// Loads and transforms a warp's rows, and returns the factor of the block. The last block may have fewer rows.
template <class Source, int kColumns>
__device__ __forceinline__ float load_block(float (&x)[kWarpRows][kColumns], const BlockParams& params, const BlockPosition& at) {
    __shared__ uint32_t largest[kBlockWarps];
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const Source* head = static_cast<const Source*>(params.x) + at.batch * params.batch_stride + at.head * params.head_stride;
    float lane_largest = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarpRows; ++i) {
        const int row = at.block * params.block_rows + i * kBlockWarps + warp;
        const bool exists = i * kBlockWarps + warp < params.block_rows && row < params.rows;  // the same for all lanes
#pragma unroll
        for (int j = 0; j < kColumns; ++j) x[i][j] = 0.0f;
        if (exists) load_columns<Source, kColumns>(x[i], head + row * params.row_stride + lane * kColumns);
    }
#pragma unroll
    for (int i = 0; i < kWarpRows; ++i) {
        if (params.transform != 0) transform_columns<kColumns>(x[i], params.signs, lane);
#pragma unroll
        for (int j = 0; j < kColumns; ++j) lane_largest = fmaxf(lane_largest, fabsf(x[i][j]));
    }
    const uint32_t bits = __reduce_max_sync(0xffffffffu, __float_as_uint(lane_largest));  // bits of magnitudes are in their order
    if (lane == 0) largest[warp] = bits;
    __syncthreads();
    uint32_t block_largest = 0;
#pragma unroll
    for (int i = 0; i < kBlockWarps; ++i) block_largest = max(block_largest, largest[i]);
    const float factor = fmaxf(__fdiv_rn(__uint_as_float(block_largest), kLargestE4m3), kSmallestFactor);
    if (threadIdx.x == 0) params.scale[(at.batch * params.heads + at.head) * params.blocks + at.block] = factor;
    return factor;
}

template <int kColumns, bool kKeepsLength = false>
__device__ __forceinline__ void round_columns(uint32_t (&words)[(kColumns + 3) / 4], const float (&x)[kColumns], float factor) {
    float y[kColumns];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) y[j] = __fdiv_rn(x[j], factor);
    pack_columns<kColumns>(words, y);
    if constexpr (kKeepsLength) keep_length<kColumns>(words, y);
}

// Stores the bytes of a lane: 2, 4 or 8.
template <int kColumns>
__device__ __forceinline__ void store_columns(uint8_t* at, const uint32_t (&words)[(kColumns + 3) / 4]) {
    if constexpr (kColumns == 2) {
        *reinterpret_cast<uint16_t*>(at) = static_cast<uint16_t>(words[0]);
    } else if constexpr (kColumns == 4) {
        *reinterpret_cast<uint32_t*>(at) = words[0];
    } else {
        *reinterpret_cast<uint2*>(at) = make_uint2(words[0], words[1]);
    }
}

// E4M3 (batch, rows, heads, head_dim), contiguous.
template <int kColumns, bool kKeepsLength>
__device__ __forceinline__ void store_block(const BlockParams& params, const BlockPosition& at, const float (&x)[kWarpRows][kColumns],
                                            float factor) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kWarpRows; ++i) {
        const int row = at.block * params.block_rows + i * kBlockWarps + warp;
        if (i * kBlockWarps + warp >= params.block_rows || row >= params.rows) break;
        uint32_t words[(kColumns + 3) / 4];
        round_columns<kColumns, kKeepsLength>(words, x[i], factor);
        const int64_t line = (static_cast<int64_t>(at.batch) * params.rows + row) * params.heads + at.head;
        store_columns<kColumns>(params.values + (line * 32 + lane) * kColumns, words);
    }
}

template <class Source, int kColumns>
__device__ __forceinline__ void round_block(const BlockParams& params) {
    const BlockPosition at = locate_block(params);
    float x[kWarpRows][kColumns];
    const float factor = load_block<Source, kColumns>(x, params, at);
    if (params.keeps_length != 0) return store_block<kColumns, true>(params, at, x, factor);
    store_block<kColumns, false>(params, at, x, factor);
}

// E4M3 (batch, heads, head_dim, blocks * 128), contiguous, in the order of attention/value_order.h. Missing keys are zeros.
template <int kHeadDim>
constexpr int kPitch = kHeadDim + 4;  // bytes of a key in shared memory, so that keys begin in different banks
constexpr int kValueTileBytes = attention::kValueKeys * kPitch<256>;

template <class Source, int kHeadDim>
__device__ __forceinline__ void round_value_block(const BlockParams& params, uint8_t* tile) {
    constexpr int kColumns = kHeadDim / 32;
    constexpr int kUnits = attention::kValueKeys / 16;  // of 16 keys, of a row
    const BlockPosition at = locate_block(params);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float x[kWarpRows][kColumns];
    const float factor = load_block<Source, kColumns>(x, params, at);
#pragma unroll
    for (int i = 0; i < kWarpRows; ++i) {
        uint32_t words[(kColumns + 3) / 4];
        round_columns<kColumns>(words, x[i], factor);
        uint8_t* const bytes = tile + (i * kBlockWarps + warp) * kPitch<kHeadDim> + lane * kColumns;
        if constexpr (kColumns == 8) {  // the pitch is not a multiple of 8
            reinterpret_cast<uint32_t*>(bytes)[0] = words[0];
            reinterpret_cast<uint32_t*>(bytes)[1] = words[1];
        } else {
            store_columns<kColumns>(bytes, words);
        }
    }
    __syncthreads();
    const int64_t sequence = static_cast<int64_t>(at.batch) * params.heads + at.head;
#pragma unroll
    for (int i = static_cast<int>(threadIdx.x); i < kHeadDim * kUnits; i += kBlockThreads) {
        const int row = i % kHeadDim;
        const int first = i / kHeadDim * 16;
        const uint8_t* column = tile + attention::value_column(row);
        uint32_t words[4];
#pragma unroll
        for (int word = 0; word < 4; ++word) {
            words[word] = 0;
#pragma unroll
            for (int byte = 0; byte < 4; ++byte) {
                const uint32_t value = column[(first + attention::value_key(4 * word + byte)) * kPitch<kHeadDim>];
                words[word] |= value << 8 * byte;
            }
        }
        uint8_t* const out = params.values + ((sequence * kHeadDim + row) * params.blocks + at.block) * attention::kValueKeys + first;
        *reinterpret_cast<uint4*>(out) = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

template <class Source>
__device__ __forceinline__ void round_blocks(const BlockParams& params) {
    switch (params.head_dim) {
        case 64: return round_block<Source, 2>(params);
        case 128: return round_block<Source, 4>(params);
        default: return round_block<Source, 8>(params);
    }
}

template <class Source>
__device__ __forceinline__ void round_value_blocks(const BlockParams& params) {
    __shared__ __align__(16) uint8_t tile[kValueTileBytes];
    switch (params.head_dim) {
        case 64: return round_value_block<Source, 64>(params, tile);
        case 128: return round_value_block<Source, 128>(params, tile);
        default: return round_value_block<Source, 256>(params, tile);
    }
}

// Values that already are E4M3 in columns: each key of a column is next to the one before. Only the order changes
// (attention/value_order.h). A thread takes 16 keys of a column.
struct PermuteParams {
    const uint8_t* v;
    int64_t batch_stride;
    int64_t column_stride;
    int64_t head_stride;
    uint8_t* values;
    int sk;
    int blocks;
    int kv_heads;
    int head_dim;
    int aligned;  // the address and all strides are multiples of 16 bytes
    int64_t units;
};

__device__ __forceinline__ uint32_t permuted_word(const uint4& in, int word) {
    // Places 4 q .. 4 q + 3 hold keys 2 q, 2 q + 1, 8 + 2 q and 8 + 2 q + 1, for q = word.
    const uint32_t low = word < 2 ? in.x : in.y;
    const uint32_t high = word < 2 ? in.z : in.w;
    return __byte_perm(low, high, word % 2 == 0 ? 0x5410 : 0x7632);
}

__device__ __forceinline__ void permute_values(const PermuteParams& params) {
    const int64_t unit = static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
    if (unit >= params.units) return;
    const int units = params.blocks * (attention::kValueKeys / 16);
    const int first = static_cast<int>(unit % units) * 16;
    const int64_t line = unit / units;
    const int row = static_cast<int>(line % params.head_dim);
    const int sequence = static_cast<int>(line / params.head_dim);
    const int batch = sequence / params.kv_heads;
    const uint8_t* source = params.v + batch * params.batch_stride + (sequence - batch * params.kv_heads) * params.head_stride +
                            attention::value_column(row) * params.column_stride + first;
    uint4 in = make_uint4(0, 0, 0, 0);
    if (params.aligned != 0 && first + 16 <= params.sk) {
        in = __ldg(reinterpret_cast<const uint4*>(source));
    } else {
        uint32_t* const words = &in.x;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            if (first + i < params.sk) words[i / 4] |= static_cast<uint32_t>(source[i]) << i % 4 * 8;
        }
    }
    *reinterpret_cast<uint4*>(params.values + line * params.blocks * attention::kValueKeys + first) =
        make_uint4(permuted_word(in, 0), permuted_word(in, 1), permuted_word(in, 2), permuted_word(in, 3));
}

}  // namespace flashcore::quantise
