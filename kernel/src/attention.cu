// Host launcher of the attention forward: validate, choose, encode the tensor maps, launch.
#include "flashcore/attention/abi.h"

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "flashcore/attention/params.h"
#include "flashcore/attention/plan.h"
#include "flashcore/attention/variants.h"
#include "flashcore/core/device.h"
#include "flashcore/core/status.h"
#include "flashcore/core/tensor_map.h"

#define FLASHCORE_DECLARE(name) extern "C" const flashcore::attention::AttentionVariant name;
FLASHCORE_ATTENTION_VARIANTS(FLASHCORE_DECLARE)
#undef FLASHCORE_DECLARE

namespace flashcore::attention {
namespace {

#define FLASHCORE_ADDRESS(name) &name,
constexpr const AttentionVariant* kVariants[] = {FLASHCORE_ATTENTION_VARIANTS(FLASHCORE_ADDRESS)};
#undef FLASHCORE_ADDRESS

using Arguments = FlashcoreAttentionArguments;

constexpr int64_t kLengthLimit = int64_t{1} << 30;  // of a sequence: row numbers stay clear of int overflow
constexpr int64_t kTileLimit = int64_t{1} << 30;    // a tile index plus the grid stays clear of int overflow
constexpr uint32_t kBoxColumns = 64;                // one 128-byte column block
constexpr int kHeadDimStep = 8;                     // 16 bytes, which the output is written in
constexpr double kLog2E = 1.44269504088896340736;

Status check_extent(const char* name, int64_t value, int64_t least) {
    if (value >= least && value <= kLengthLimit) return Status::kOk;
    return fail(Status::kInvalidArgument, "%s: must be from %lld to 2^30, is %lld", name, static_cast<long long>(least),
                static_cast<long long>(value));
}

Status check_arguments(const Arguments& args) {
    if (args.size != sizeof(args)) return fail(Status::kInvalidArgument, "size: not the struct of this ABI version");
    if (args.dtype != static_cast<int>(DType::kFp16) && args.dtype != static_cast<int>(DType::kBf16)) {
        return fail(Status::kInvalidArgument, "dtype: must be 0 (fp16) or 1 (bf16), is %d", args.dtype);
    }
    FLASHCORE_RETURN_IF_FAILED(check_extent("batch", args.batch, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("heads", args.heads, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("kv_heads", args.kv_heads, args.heads == 0 ? 0 : 1));
    FLASHCORE_RETURN_IF_FAILED(check_extent("sq", args.sq, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("sk", args.sk, 0));
    if (args.kv_heads > 0 && args.heads % args.kv_heads != 0) {
        return fail(Status::kInvalidArgument, "heads: %lld query heads are not a multiple of %lld key heads",
                    static_cast<long long>(args.heads), static_cast<long long>(args.kv_heads));
    }
    if (!std::isfinite(args.scale)) return fail(Status::kInvalidArgument, "scale: must be finite");
    if (reinterpret_cast<uintptr_t>(args.workspace) % sizeof(Tickets) != 0) {
        return fail(Status::kInvalidArgument, "workspace: must be aligned to 8 bytes");
    }
    if (args.max_ctas < 0) return fail(Status::kInvalidArgument, "max_ctas: must not be negative");
    return Status::kOk;
}

Status find_variant(const Arguments& args, const Problem& problem, const AttentionVariant*& variant) {
    const bool possible = args.head_dim > 0 && args.head_dim <= INT32_MAX && args.head_dim % kHeadDimStep == 0;
    const int chosen = possible ? choose(kVariants, std::size(kVariants), problem) : -1;
    if (chosen < 0) {
        return fail(Status::kInvalidArgument, "head_dim: must be a multiple of %d up to 256, is %lld", kHeadDimStep,
                    static_cast<long long>(args.head_dim));
    }
    variant = kVariants[chosen];
    return Status::kOk;
}

TensorShape shape_of(const char* name, const FlashcoreOperand& operand, const Arguments& args, int64_t length, int64_t heads,
                     int box_rows) {
    return {name,
            operand.data,
            {args.head_dim, length, heads, args.batch},
            {operand.sequence_stride * kBytesPerElement, operand.head_stride * kBytesPerElement,
             operand.batch_stride * kBytesPerElement},
            {kBoxColumns, static_cast<uint32_t>(box_rows), 1, 1}};
}

Status encode_maps(const Arguments& args, const Config& config, Params& params) {
    EncodeTiled encoder = nullptr;
    FLASHCORE_RETURN_IF_FAILED(find_encoder(encoder));
    const auto type = config.dtype == DType::kFp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const auto map = [&](const char* name, const FlashcoreOperand& operand, int64_t length, int64_t heads, int rows,
                         CUtensorMap& out) {
        return encode(encoder, shape_of(name, operand, args, length, heads, rows), type, out);
    };
    FLASHCORE_RETURN_IF_FAILED(map("q", args.q, args.sq, args.heads, kWarpgroupRows, params.q));
    FLASHCORE_RETURN_IF_FAILED(map("out", args.out, args.sq, args.heads, kWarpRows, params.out_rows));
    if (args.sk == 0) {  // no key is ever loaded, and an empty tensor has no map
        params.k = params.v = params.q;
        return Status::kOk;
    }
    FLASHCORE_RETURN_IF_FAILED(map("k", args.k, args.sk, args.kv_heads, config.tile_n, params.k));
    return map("v", args.v, args.sk, args.kv_heads, config.tile_n, params.v);
}

// The softmax works on powers of two with a positive scale; a negative or vanishing one goes into the sign of the scores.
void set_scale(float scale, Params& params) {
    const double magnitude = std::fabs(static_cast<double>(scale)) * kLog2E;
    const bool vanishes = magnitude < FLT_MIN;
    params.score_sign = vanishes ? 0.0f : std::copysign(1.0f, scale);
    params.scale_log2 = vanishes ? 1.0f : static_cast<float>(std::fmin(magnitude, FLT_MAX));
    params.scale = std::fabs(scale);
    params.slack = kSlackLog2 / params.scale_log2;  // infinite for a tiny scale: such scores never grow by as much
}

Status forward(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_arguments(args));
    const Problem problem{static_cast<DType>(args.dtype), args.causal != 0, static_cast<int>(args.head_dim),
                          args.batch * args.heads,        args.sq,          args.sk};
    const AttentionVariant* variant = nullptr;
    FLASHCORE_RETURN_IF_FAILED(find_variant(args, problem, variant));
    if (problem.sequences == 0 || problem.sq == 0) return Status::kOk;
    if (problem.sequences > kTileLimit / row_tiles(variant->config, problem)) {
        return fail(Status::kInvalidArgument, "batch: batch * heads * query tiles must not exceed 2^30");
    }

    Device device;
    DeviceScope scope;
    FLASHCORE_RETURN_IF_FAILED(describe(args.device, device));
    FLASHCORE_RETURN_IF_FAILED(scope.enter(args.device));
    const Plan chosen = plan(variant->config, problem, device.multiprocessors, args.max_ctas);
    Params params{};
    FLASHCORE_RETURN_IF_FAILED(encode_maps(args, variant->config, params));
    params.out = {args.out.data, args.out.batch_stride, args.out.sequence_stride, args.out.head_stride,
                  static_cast<int>(args.head_dim)};
    params.lse = args.lse;
    params.tickets = static_cast<Tickets*>(args.workspace);
    params.schedule = chosen.schedule;
    params.sq = static_cast<int>(args.sq);
    params.sk = static_cast<int>(args.sk);
    params.heads = static_cast<int>(args.heads);
    params.heads_per_kv_head = static_cast<int>(args.heads / args.kv_heads);
    set_scale(args.scale, params);
    return check(variant->launch(params, chosen.ctas, static_cast<cudaStream_t>(args.stream)), "launch");
}

}  // namespace
}  // namespace flashcore::attention

extern "C" int flashcore_attention_forward(const FlashcoreAttentionArguments* arguments) {
    if (arguments == nullptr) {
        return static_cast<int>(flashcore::fail(flashcore::Status::kInvalidArgument, "arguments: is a null pointer"));
    }
    return static_cast<int>(flashcore::attention::forward(*arguments));
}
