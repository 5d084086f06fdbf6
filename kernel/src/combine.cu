// Host launcher of the merge of partial results: validate, choose accesses and grid, launch.
#include "flashcore/combine/abi.h"

#include <algorithm>
#include <cstdint>

#include "flashcore/combine/config.h"
#include "flashcore/core/arguments.h"
#include "flashcore/core/device.h"
#include "flashcore/core/status.h"

extern "C" const flashcore::combine::CombineVariant flashcore_combine_f32_variant;

namespace flashcore::combine {
namespace {

using Arguments = FlashcoreCombineArguments;

constexpr int64_t kMaxSplits = 256;  // as FlashAttention-3
constexpr int64_t kMaxItems = INT32_MAX;

Strides strides_of(const FlashcoreOperand& operand, int64_t split = 0) {
    return {split, operand.batch_stride, operand.sequence_stride, operand.head_stride};
}

bool has_vectors(const void* data, const Strides& strides, int element_bytes) {
    if (reinterpret_cast<uintptr_t>(data) % (kVectorWidth * element_bytes) != 0) return false;
    return (strides.split | strides.batch | strides.sequence | strides.head) % kVectorWidth == 0;
}

Status check_arguments(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_count("max_ctas", args.max_ctas));
    FLASHCORE_RETURN_IF_FAILED(check_extent("out_dtype", args.out_dtype, 0, 2));
    FLASHCORE_RETURN_IF_FAILED(check_extent("splits", args.splits, 1, kMaxSplits));
    FLASHCORE_RETURN_IF_FAILED(check_extent("batch", args.batch, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("sequence", args.sequence, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("heads", args.heads, 0));
    return check_extent("head_dim", args.head_dim, 1);
}

Status check_pointers(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_pointer("partial", args.partial.data, sizeof(float)));
    FLASHCORE_RETURN_IF_FAILED(check_pointer("lse_partial", args.lse_partial.data, sizeof(float)));
    FLASHCORE_RETURN_IF_FAILED(check_pointer("out", args.out.data, bytes_of(static_cast<OutType>(args.out_dtype))));
    return check_pointer("lse", args.lse, sizeof(float));
}

// Chooses accesses and lanes. False if the items are too many.
bool plan(const Arguments& args, Params& params) {
    const int out_bytes = bytes_of(params.out_type);
    params.vectors = args.head_dim % kVectorWidth == 0 &&
                     has_vectors(args.partial.data, params.partial_strides, sizeof(float)) &&
                     has_vectors(args.out.data, params.out_strides, out_bytes);
    const int64_t accesses = args.head_dim / (params.vectors ? kVectorWidth : 1);
    params.lane_shift = choose_lane_shift(accesses);
    int64_t items = ((accesses - 1) >> params.lane_shift) + 1;
    params.blocks = static_cast<int>(items);
    for (const int64_t extent : {args.batch, args.sequence, args.heads}) {
        if (items > kMaxItems / extent) return false;
        items *= extent;
    }
    params.items = static_cast<int>(items);
    return true;
}

int count_ctas(const Config& config, const Params& params, int max_ctas) {
    const int64_t threads = int64_t{params.items} << params.lane_shift;
    const int64_t ctas = (threads + config.threads - 1) / config.threads;
    return static_cast<int>(max_ctas > 0 ? std::min<int64_t>(ctas, max_ctas) : ctas);
}

Status combine(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_arguments(args));
    if (args.batch == 0 || args.sequence == 0 || args.heads == 0) return Status::kOk;
    FLASHCORE_RETURN_IF_FAILED(check_pointers(args));
    Params params{};
    params.partial = static_cast<const float*>(args.partial.data);
    params.lse_partial = static_cast<const float*>(args.lse_partial.data);
    params.out = args.out.data;
    params.lse = args.lse;
    params.partial_strides = strides_of(args.partial, args.partial_split_stride);
    params.lse_strides = strides_of(args.lse_partial, args.lse_partial_split_stride);
    params.out_strides = strides_of(args.out);
    params.splits = static_cast<int>(args.splits);
    params.sequence = static_cast<int>(args.sequence);
    params.heads = static_cast<int>(args.heads);
    params.head_dim = static_cast<int>(args.head_dim);
    params.out_type = static_cast<OutType>(args.out_dtype);
    if (!plan(args, params)) {
        return fail(Status::kInvalidArgument, "batch: batch * sequence * heads * blocks of columns must be below 2^31");
    }

    Device device;
    DeviceScope scope;
    FLASHCORE_RETURN_IF_FAILED(describe(args.device, device));
    FLASHCORE_RETURN_IF_FAILED(scope.enter(args.device));
    const CombineVariant& variant = flashcore_combine_f32_variant;
    const int ctas = count_ctas(variant.config, params, args.max_ctas);
    return check(variant.launch(params, ctas, static_cast<cudaStream_t>(args.stream)), "launch");
}

}  // namespace
}  // namespace flashcore::combine

extern "C" int flashcore_combine(const FlashcoreCombineArguments* arguments) {
    return static_cast<int>(flashcore::call(flashcore::combine::combine, arguments));
}
