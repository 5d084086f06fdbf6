// The common part of the E4M3 launchers for equal and variable lengths. Host code.
#pragma once

#include <cstdint>

#include "flashcore/attention/e4m3/config.h"
#include "flashcore/attention/e4m3/forward_params.h"
#include "flashcore/attention/e4m3/transpose_params.h"
#include "flashcore/attention/e4m3_abi.h"
#include "flashcore/attention/e4m3_variants.h"
#include "flashcore/attention/plan.h"
#include "flashcore/core/arguments.h"
#include "flashcore/core/device.h"
#include "flashcore/core/score_scale.h"
#include "flashcore/core/tensor_map.h"

#define FLASHCORE_DECLARE(name) extern "C" const flashcore::attention::e4m3::ForwardVariant name;
FLASHCORE_E4M3_VARIANTS(FLASHCORE_DECLARE)
#undef FLASHCORE_DECLARE
extern "C" const flashcore::attention::e4m3::TransposeVariant flashcore_e4m3_transpose_values_variant;

namespace flashcore::attention::e4m3 {

namespace {  // each launcher has a table of its own, as in attention/launcher.h

#define FLASHCORE_ADDRESS(name) &name,
constexpr const ForwardVariant* kVariants[] = {FLASHCORE_E4M3_VARIANTS(FLASHCORE_ADDRESS) nullptr};
#undef FLASHCORE_ADDRESS
// The last one is null, so that a build of a single entry function has no empty list.

}  // namespace

constexpr int kPartColumns = 64;        // of a CTA that transposes
constexpr int64_t kCounterBytes = 128;  // the tile counter, at the beginning of the workspace

inline Status check_head_dim(int64_t head_dim) {
    if (head_dim == 64 || head_dim == 128 || head_dim == 256) return Status::kOk;
    return fail(Status::kInvalidArgument, "head_dim: must be 64, 128 or 256 for E4M3, but is %lld",
                static_cast<long long>(head_dim));
}

// Finds the variant with this mask and head dimension, or null.
template <class AnyVariant, size_t kCount>
const AnyVariant* find(const AnyVariant* const (&variants)[kCount], bool causal, int64_t head_dim) {
    for (const AnyVariant* candidate : variants) {
        if (candidate != nullptr && candidate->config.causal == causal && candidate->config.head_dim == head_dim) return candidate;
    }
    return nullptr;
}

// Transposes all blocks of so many sequences. The device and its parameters are set.
inline Status launch_transpose(const TransposeParams& params, int64_t sequences, void* stream) {
    const int64_t parts = params.head_dim / kPartColumns;
    if (sequences > kTileLimit / (params.blocks * parts)) {
        return fail(Status::kInvalidArgument, "batch: batch * kv_heads * blocks of 128 keys and 64 columns must not exceed 2^30");
    }
    const auto ctas = static_cast<int>(params.blocks * sequences * parts);
    return check(flashcore_e4m3_transpose_values_variant.launch(params, ctas, static_cast<cudaStream_t>(stream)), "launch");
}

// Fills in what follows from the arguments alone, for sequences of equal length, except the tensor maps and the schedule.
inline void fill(const FlashcoreE4m3Arguments& args, Fp8Params& params) {
    params.out = {args.out.data, args.out.batch_stride, args.out.sequence_stride, args.out.head_stride,
                  static_cast<int>(args.head_dim)};
    params.lse = args.lse;
    params.lse_batch_stride = args.heads * args.sq;
    params.lse_head_stride = args.sq;
    params.tile_counter = static_cast<TileCounter*>(args.workspace);
    params.sq = static_cast<int>(args.sq);
    params.sk = static_cast<int>(args.sk);
    params.heads = static_cast<int>(args.heads);
    params.heads_per_kv_head = static_cast<int>(args.heads / args.kv_heads);
    const ScoreScale score = score_scale(args.scale);
    params.score_sign = score.sign;
    params.scale_log2 = score.log2;
    params.scale = score.magnitude;
    params.q_descale = {args.q_scale, args.q_scale_batch_stride, args.q_scale_head_stride};
    params.k_descale = {args.k_scale, args.k_scale_batch_stride, args.k_scale_head_stride};
    params.v_descale = {args.v_scale, args.v_scale_batch_stride, args.v_scale_head_stride};
}

// E4M3 takes half the bytes that the plan counts.
constexpr int planned_head_dim(const Config& config) { return config.head_dim / 2; }

}  // namespace flashcore::attention::e4m3
