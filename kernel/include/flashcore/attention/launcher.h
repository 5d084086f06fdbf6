// The common part of the launchers for equal and variable lengths: find the variant, fill in the parameters. Host code.
#pragma once

#include <cstdint>
#include <iterator>

#include "flashcore/attention/abi.h"
#include "flashcore/attention/local_variants.h"
#include "flashcore/attention/params.h"
#include "flashcore/attention/plan.h"
#include "flashcore/attention/variants.h"
#include "flashcore/core/arguments.h"
#include "flashcore/core/device.h"
#include "flashcore/core/local_arguments.h"
#include "flashcore/core/score_scale.h"
#include "flashcore/core/status.h"
#include "flashcore/core/tensor_map.h"

#define FLASHCORE_DECLARE(name) extern "C" const flashcore::attention::AttentionVariant name;
FLASHCORE_ATTENTION_VARIANTS(FLASHCORE_DECLARE)
FLASHCORE_ATTENTION_LOCAL_VARIANTS(FLASHCORE_DECLARE)
#undef FLASHCORE_DECLARE

namespace flashcore::attention {

namespace {  // each launcher has a table of its own: the loader would give one inline table to all libraries of a process

#define FLASHCORE_ADDRESS(name) &name,
constexpr const AttentionVariant* kVariants[] = {FLASHCORE_ATTENTION_VARIANTS(FLASHCORE_ADDRESS)
                                                 FLASHCORE_ATTENTION_LOCAL_VARIANTS(FLASHCORE_ADDRESS)};
#undef FLASHCORE_ADDRESS

constexpr int kHeadDimStep = 8;  // the output is written in units of 16 bytes

Status find_variant(const Problem& problem, const AttentionVariant*& variant) {
    const bool possible = problem.head_dim > 0 && problem.head_dim % kHeadDimStep == 0;
    const int index = possible ? choose_variant(kVariants, std::size(kVariants), problem) : -1;
    if (index < 0 && problem.paged) {
        return fail(Status::kInvalidArgument, "head_dim: must be 64, 128 or 256 in pages, but is %lld",
                    static_cast<long long>(problem.head_dim));
    }
    if (index < 0) {
        return fail(Status::kInvalidArgument, "head_dim: must be a multiple of %d up to 256, but is %lld", kHeadDimStep,
                    static_cast<long long>(problem.head_dim));
    }
    variant = kVariants[index];
    return Status::kOk;
}

}  // namespace

constexpr int64_t kWrapStride = int64_t{1} << 34;         // bytes. kBatchRows of these strides are 2^64
constexpr int64_t kVarlenStrideLimit = int64_t{1} << 33;  // bytes

// Sequences of equal length have one batch each. For packed sequences, batch e of the map ends at row e and has kBatchRows rows
// (params.h). So row x of batch e is row x + e - kBatchRows of the tensor. The last dimension does the subtraction: its stride is
// kWrapStride minus a row, its coordinate is kBatchRows, and addresses wrap modulo 2^64. Triton describes ragged tensors in this
// way (triton/tools/ragged_tma.py).
inline TensorShape shape_of(const char* name, const FlashcoreOperand& operand, const FlashcoreAttentionArguments& args,
                            int64_t length, int64_t heads, int box_rows, bool varlen) {
    const int64_t row = operand.sequence_stride * kBytesPerElement;
    const int64_t head = operand.head_stride * kBytesPerElement;
    TensorShape shape{name,
                      operand.data,
                      {args.head_dim, length, heads, args.batch, 1},
                      {row, head, operand.batch_stride * kBytesPerElement, 0},
                      {kSwizzleAtomColumns, static_cast<uint32_t>(box_rows), 1, 1, 1},
                      kTensorRank};
    if (!varlen) return shape;
    shape.extent[1] = kBatchRows;
    shape.extent[3] = length + 1;
    shape.extent[4] = kBatchRows + 1;
    shape.stride[2] = row;
    shape.stride[3] = kWrapStride - row;
    return shape;
}

inline Status encode_maps(const FlashcoreAttentionArguments& args, const Config& config, Params& params) {
    const auto map = [&](const char* name, const FlashcoreOperand& operand, int64_t length, int64_t heads, int rows,
                         CUtensorMap& out) {
        return encode(shape_of(name, operand, args, length, heads, rows, params.sequence_infos != nullptr), config.dtype, out);
    };
    FLASHCORE_RETURN_IF_FAILED(map("q", args.q, args.sq, args.heads, kWarpgroupRows, params.q));
    FLASHCORE_RETURN_IF_FAILED(map("out", args.out, args.sq, args.heads, kWarpRows, params.out_rows));
    if (args.sk == 0) {  // no key is loaded, and an empty tensor has no map
        params.k = params.v = params.q;
        return Status::kOk;
    }
    FLASHCORE_RETURN_IF_FAILED(map("k", args.k, args.sk, args.kv_heads, config.tile_n, params.k));
    return map("v", args.v, args.sk, args.kv_heads, config.tile_n, params.v);
}

inline void set_scale(float scale, Params& params) {
    const ScoreScale score = score_scale(scale);
    params.score_sign = score.sign;
    params.scale_log2 = score.log2;
    params.scale = score.magnitude;
    params.rescale_threshold =
        kRescaleThresholdLog2 / score.log2;  // infinite for a tiny scale, whose scores never grow that much
}

// Fills in all parameters that follow from the arguments alone, for sequences of equal length.
inline Status fill(const FlashcoreAttentionArguments& args, const Config& config, LocalParams& params) {
    FLASHCORE_RETURN_IF_FAILED(encode_maps(args, config, params));
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
    set_scale(scale_after_cap(args.local, args.scale), params);
    if (args.local.enabled != 0) params.local = make_local(args, args.scale);
    return Status::kOk;
}

}  // namespace flashcore::attention
