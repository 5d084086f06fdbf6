// The cap of the scores, and the sink: a logit that takes part in the softmax, but has no value.
#pragma once

#include <cuda_bf16.h>

#include "flashcore/core/local.h"
#include "flashcore/core/logarithm.cuh"
#include "flashcore/ptx/math.cuh"

namespace flashcore {

// cap * tanh(scale * score / cap), with an error of 2^-23 of the cap. tanh.approx has 2^-11.
__device__ __forceinline__ float capped(float score, float cap, float factor) {
    return fmaf(-2.0f * cap, __fdividef(1.0f, 1.0f + ptx::exp2_approx(score * factor)), cap);
}

__device__ __forceinline__ float load_sink(const Local& local, int head) {
    if (local.bf16_sinks) return __bfloat162float(static_cast<const __nv_bfloat16*>(local.sinks)[head]);
    return static_cast<const float*>(local.sinks)[head];
}

// The end of a row's softmax: the factor of its output, and its log-sum-exp.
struct RowEnd {
    float inverse;
    float lse;
};

// `row_max` times `scale` is in natural units like the sink. A row that saw no key gives 0 and the sink.
__device__ __forceinline__ RowEnd end_with_sink(float row_max, float row_sum, float scale, float sink) {
    constexpr float kLog2E = 1.44269504f;
    const float ahead = fmaf(row_max, scale, -sink);
    const bool above = ahead < 0.0f;
    const float weight = above ? ptx::exp2_approx(ahead * kLog2E) : 1.0f;
    const float total = fmaf(row_sum, weight, above ? 1.0f : ptx::exp2_approx(-ahead * kLog2E));
    const float log = natural_log(total);
    if (row_sum == 0.0f) return {0.0f, sink};
    return {__fdividef(weight, total), above ? sink + log : fmaf(row_max, scale, log)};
}

}  // namespace flashcore
