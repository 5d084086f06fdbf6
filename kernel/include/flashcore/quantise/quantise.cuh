// Rounds rows of 128 columns to E4M3, after an optional Hadamard transform. A warp takes a row, and a lane four of its columns.
//
// Two passes: the first one finds the largest magnitude of each (batch, KV head), the second one divides, and rounds. A row is read
// and transformed in both, so that no transformed row goes to memory.
#pragma once

#include <cstdint>

#include "flashcore/core/element.cuh"
#include "flashcore/core/launch.cuh"
#include "flashcore/ptx/math.cuh"

namespace flashcore::quantise {

constexpr int kColumns = 128;
constexpr int kBlockRows = 128;  // of a CTA
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr float kLargest = 448.0f;
constexpr float kSmallestScale = 1e-30f;
constexpr float kNorm = 0.08838834764831845f;  // 1 / sqrt(128)

struct Params {
    const void* x;
    int64_t batch_stride;
    int64_t row_stride;
    int64_t head_stride;
    uint8_t* values;
    float* scale;  // between the passes it holds the largest magnitude's bits
    int rows;
    int heads;
    int heads_per_kv_head;
    int blocks;  // of rows, of a head
    int scales;  // batch * KV heads
    int transform;
    uint32_t signs[4];
};

struct Position {
    int block, batch, head, kv_slot;
};
__device__ __forceinline__ Position locate(const Params& params) {
    const int block = static_cast<int>(blockIdx.x) % params.blocks;
    const int sequence = static_cast<int>(blockIdx.x) / params.blocks;
    const int batch = sequence / params.heads;
    const int head = sequence - batch * params.heads;
    return {block, batch, head, batch * (params.heads / params.heads_per_kv_head) + head / params.heads_per_kv_head};
}

// Columns 4 * lane to 4 * lane + 3 of the transformed row.
__device__ __forceinline__ void transform_row(float (&x)[4], const Params& params, int lane) {
    const uint32_t bits = params.signs[lane / 8] >> (lane % 8 * 4);
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = bits >> j & 1u ? -x[j] : x[j];
    const float sums[4] = {x[0] + x[1], x[0] - x[1], x[2] + x[3], x[2] - x[3]};
    x[0] = sums[0] + sums[2];
    x[1] = sums[1] + sums[3];
    x[2] = sums[0] - sums[2];
    x[3] = sums[1] - sums[3];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float other = __shfl_xor_sync(0xffffffffu, x[j], step);
            x[j] = lane & step ? other - x[j] : x[j] + other;
        }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] *= kNorm;
}

template <class Source>
__device__ __forceinline__ void load_row(float (&x)[4], const Params& params, const Position& at, int row, int lane) {
    const Source* source = static_cast<const Source*>(params.x) + at.batch * params.batch_stride + row * params.row_stride +
                           at.head * params.head_stride + 4 * lane;
    const uint2 pairs = __ldg(reinterpret_cast<const uint2*>(source));
    const Source* elements = reinterpret_cast<const Source*>(&pairs);
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = static_cast<float>(elements[j]);
    if (params.transform != 0) transform_row(x, params, lane);
}

template <class Source>
__device__ __forceinline__ void find_largest(const Params& params) {
    const Position at = locate(params);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float largest = 0.0f;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) / 32; i < kBlockRows; i += kWarps) {
        const int row = at.block * kBlockRows + i;
        if (row >= params.rows) break;  // the same for all lanes
        float x[4];
        load_row<Source>(x, params, at, row, lane);
#pragma unroll
        for (int j = 0; j < 4; ++j) largest = fmaxf(largest, fabsf(x[j]));
    }
    const uint32_t bits = __reduce_max_sync(0xffffffffu, __float_as_uint(largest));  // bits of magnitudes are in their order
    if (lane == 0) atomicMax(reinterpret_cast<unsigned int*>(params.scale) + at.kv_slot, bits);
}

// `scale` holds magnitudes. The launch that divides writes no scale, because other CTAs still read.
template <class Source>
__device__ __forceinline__ void round_rows(const Params& params) {
    const Position at = locate(params);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const float factor = fmaxf(__fdiv_rn(__ldg(params.scale + at.kv_slot), kLargest), kSmallestScale);
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) / 32; i < kBlockRows; i += kWarps) {
        const int row = at.block * kBlockRows + i;
        if (row >= params.rows) break;
        float x[4];
        load_row<Source>(x, params, at, row, lane);
        const uint32_t four =
            ptx::pack_e4m3(__fdiv_rn(x[0], factor), __fdiv_rn(x[1], factor), __fdiv_rn(x[2], factor), __fdiv_rn(x[3], factor));
        const int64_t line = (static_cast<int64_t>(at.batch) * params.rows + row) * params.heads + at.head;
        *reinterpret_cast<uint32_t*>(params.values + line * kColumns + 4 * lane) = four;
    }
}

__device__ __forceinline__ void finish_scales(const Params& params) {
    const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
    if (i < params.scales) params.scale[i] = fmaxf(__fdiv_rn(params.scale[i], kLargest), kSmallestScale);
}

}  // namespace flashcore::quantise
