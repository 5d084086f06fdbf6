// Host launcher of the attention forward in E4M3: validate, transpose the values, encode the tensor maps, launch.
#include <algorithm>
#include <type_traits>

#include "flashcore/attention/e4m3/block_params.h"
#include "flashcore/attention/e4m3/launcher.h"
#include "flashcore/attention/e4m3_block_variants.h"
#include "flashcore/attention/value_order.h"

#define FLASHCORE_DECLARE(name) extern "C" const flashcore::attention::e4m3::BlockVariant name;
FLASHCORE_E4M3_BLOCK_VARIANTS(FLASHCORE_DECLARE)
#undef FLASHCORE_DECLARE

namespace flashcore::attention::e4m3 {
namespace {

#define FLASHCORE_ADDRESS(name) &name,
constexpr const BlockVariant* kBlockVariants[] = {FLASHCORE_E4M3_BLOCK_VARIANTS(FLASHCORE_ADDRESS) nullptr};
#undef FLASHCORE_ADDRESS

using Arguments = FlashcoreE4m3Arguments;
using TransposeArguments = FlashcoreE4m3TransposeArguments;

constexpr int32_t kQueryBlocks = 1;  // FlashcoreE4m3Arguments::block_scales
constexpr int32_t kKeyBlocks = 2;
constexpr int32_t kValueBlocks = 4;

int64_t blocks_of(int64_t sk) { return (sk + kValueKeys - 1) / kValueKeys; }

Status check_values(const FlashcoreOperand& v, DType dtype, int64_t head_dim, int64_t sk, int64_t kv_heads, int64_t batch) {
    const int64_t bytes = bytes_of(dtype);
    return check_tensor({"v",
                         v.data,
                         {head_dim, sk, kv_heads, batch},
                         {v.sequence_stride * bytes, v.head_stride * bytes, v.batch_stride * bytes},
                         {}});
}

Status transpose_on_device(const TransposeArguments& args) {
    const int64_t blocks = blocks_of(args.sk);
    const int64_t sequences = args.batch * args.kv_heads;
    if (sequences == 0 || blocks == 0) return Status::kOk;
    const TransposeParams params{{args.v.data,
                                  args.v.batch_stride,
                                  args.v.sequence_stride,
                                  args.v.head_stride,
                                  static_cast<uint8_t*>(args.values),
                                  {args.v_scale, args.v_scale_batch_stride, args.v_scale_head_stride},
                                  static_cast<int>(args.sk),
                                  static_cast<int>(blocks),
                                  static_cast<int>(args.kv_heads),
                                  static_cast<DType>(args.dtype)},
                                 static_cast<int>(args.head_dim),
                                 {}};
    return launch_transpose(params, sequences, args.stream);
}

Status transpose(const TransposeArguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_extent("dtype", args.dtype, 0, static_cast<int64_t>(DType::kE4m3)));
    FLASHCORE_RETURN_IF_FAILED(check_extent("batch", args.batch, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("kv_heads", args.kv_heads, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("sk", args.sk, 0));
    FLASHCORE_RETURN_IF_FAILED(check_head_dim(args.head_dim));
    if (args.batch * args.kv_heads == 0 || args.sk == 0) return Status::kOk;
    FLASHCORE_RETURN_IF_FAILED(check_pointer("values", args.values, kTensorAlignment));
    FLASHCORE_RETURN_IF_FAILED(
        check_values(args.v, static_cast<DType>(args.dtype), args.head_dim, args.sk, args.kv_heads, args.batch));
    Device device;
    DeviceScope scope;
    FLASHCORE_RETURN_IF_FAILED(describe(args.device, device));
    FLASHCORE_RETURN_IF_FAILED(scope.enter(args.device));
    return transpose_on_device(args);
}

Status check_arguments(const Arguments& args) {
    struct {
        int32_t dtype, max_ctas;
        float scale;
        int64_t batch, heads, kv_heads;
    } const numbers{static_cast<int32_t>(DType::kBf16), args.max_ctas, args.scale, args.batch, args.heads, args.kv_heads};
    FLASHCORE_RETURN_IF_FAILED(check_attention(numbers));
    FLASHCORE_RETURN_IF_FAILED(check_extent("sq", args.sq, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("sk", args.sk, 0));
    FLASHCORE_RETURN_IF_FAILED(check_head_dim(args.head_dim));
    FLASHCORE_RETURN_IF_FAILED(check_extent("block_scales", args.block_scales, 0, kQueryBlocks | kKeyBlocks | kValueBlocks));
    return check_extent("transposed", args.transposed, 0, 1);
}

int64_t value_bytes(const Arguments& args) {
    return args.batch * args.kv_heads * args.head_dim * blocks_of(args.sk) * kValueKeys;
}

Status check_pointers(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_pointer("workspace", args.workspace, kCounterBytes));
    const int64_t needed = kCounterBytes + (args.transposed != 0 ? 0 : value_bytes(args));
    if (args.workspace_bytes < needed) {
        return fail(Status::kInvalidArgument, "workspace_bytes: must be at least %lld, but is %lld",
                    static_cast<long long>(needed), static_cast<long long>(args.workspace_bytes));
    }
    constexpr int64_t kOutBytes = 2;
    FLASHCORE_RETURN_IF_FAILED(check_tensor(
        {"out",
         args.out.data,
         {args.head_dim, args.sq, args.heads, args.batch},
         {args.out.sequence_stride * kOutBytes, args.out.head_stride * kOutBytes, args.out.batch_stride * kOutBytes},
         {}}));
    if (args.sk == 0) return Status::kOk;
    if (args.transposed != 0) return check_pointer("v", args.v.data, kTensorAlignment);
    return check_values(args.v, DType::kE4m3, args.head_dim, args.sk, args.kv_heads, args.batch);
}

Status encode_rows(const char* name, const FlashcoreOperand& operand, const Arguments& args, int64_t length, int64_t heads,
                   int box_rows, CUtensorMap& map) {
    return encode({name,
                   operand.data,
                   {args.head_dim, length, heads, args.batch, 1},
                   {operand.sequence_stride, operand.head_stride, operand.batch_stride, 0},
                   {kAtomColumns, static_cast<uint32_t>(box_rows), 1, 1, 1},
                   kTensorRank},
                  DType::kE4m3, map);
}

// `values` are the transposed values.
Status encode_maps(const Arguments& args, void* values, const Config& config, Params& params) {
    FLASHCORE_RETURN_IF_FAILED(encode_rows("q", args.q, args, args.sq, args.heads, kWarpgroupRows, params.q));
    params.k = params.v = params.q;  // no key is loaded, and an empty tensor has no map
    if (args.sk == 0) return Status::kOk;
    FLASHCORE_RETURN_IF_FAILED(encode_rows("k", args.k, args, args.sk, args.kv_heads, config.tile_n, params.k));
    const int64_t row = blocks_of(args.sk) * kValueKeys;
    const int64_t head = row * args.head_dim;
    return encode({"v",
                   values,
                   {row, args.head_dim, args.kv_heads, args.batch, 1},
                   {row, head, head * args.kv_heads, 0},
                   {kValueKeys, static_cast<uint32_t>(args.head_dim), 1, 1, 1},
                   kTensorRank},
                  DType::kE4m3, params.v);
}

void fill_blocks(const Arguments& args, BlockParams& params) {
    const bool by_head = (args.block_scales & kQueryBlocks) != 0;
    params.heads_per_q_factor = by_head ? 1 : params.heads_per_kv_head;
    params.q_blocks = {args.q_scale, args.q_scale_batch_stride, args.q_scale_head_stride, by_head ? args.q_scale_block_stride : 0};
    params.k_blocks = {args.k_scale, args.k_scale_batch_stride, args.k_scale_head_stride,
                       (args.block_scales & kKeyBlocks) != 0 ? args.k_scale_block_stride : 0};
    params.v_blocks = {args.v_scale, args.v_scale_batch_stride, args.v_scale_head_stride,
                       (args.block_scales & kValueBlocks) != 0 ? args.v_scale_block_stride : 0};
}

template <class AnyParams>
Status launch(const Arguments& args, const Variant<Config, AnyParams>* variant) {
    if (variant == nullptr) return fail(Status::kInvalidArgument, "head_dim: no kernel of this library has it");
    const Problem problem{DType::kE4m3, args.causal != 0, args.head_dim, args.batch * args.heads, args.sq, args.sk};
    if (problem.sequences == 0 || problem.sq == 0) return Status::kOk;
    if (problem.sequences > kTileLimit / std::max(row_tiles(variant->config, problem), blocks_of(args.sk))) {
        return fail(Status::kInvalidArgument, "batch: batch * heads * tiles of 128 rows must not exceed 2^30");
    }
    FLASHCORE_RETURN_IF_FAILED(check_pointers(args));
    Device device;
    DeviceScope scope;
    FLASHCORE_RETURN_IF_FAILED(describe(args.device, device));
    FLASHCORE_RETURN_IF_FAILED(scope.enter(args.device));
    void* values = args.transposed != 0 ? args.v.data : static_cast<uint8_t*>(args.workspace) + kCounterBytes;
    AnyParams params{};
    FLASHCORE_RETURN_IF_FAILED(encode_maps(args, values, variant->config, params));
    if (args.transposed == 0) {
        FLASHCORE_RETURN_IF_FAILED(transpose_on_device({sizeof(TransposeArguments), args.device, static_cast<int32_t>(DType::kE4m3),
                                                        0, args.batch, args.kv_heads, args.sk, args.head_dim, args.v, nullptr, 0,
                                                        0, values, args.stream}));
    }
    fill(args, params);
    if constexpr (std::is_same_v<AnyParams, BlockParams>) {
        fill_blocks(args, params);
    } else {
        params.head_bits = bits_of_heads(args.heads);
    }
    const Plan launch_plan = plan(variant->config, problem, device.multiprocessors, args.max_ctas);
    params.schedule = launch_plan.schedule;
    params.schedule.group =
        static_cast<int>(group_size(variant->config.causal, planned_head_dim(variant->config), problem.sk, problem.sequences));
    return check(variant->launch(params, launch_plan.ctas, static_cast<cudaStream_t>(args.stream)), "launch");
}

Status forward(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_arguments(args));
    const bool causal = args.causal != 0;
    return args.block_scales != 0 ? launch(args, find(kBlockVariants, causal, args.head_dim))
                                  : launch(args, find(kVariants, causal, args.head_dim));
}

}  // namespace
}  // namespace flashcore::attention::e4m3

extern "C" int flashcore_e4m3_forward(const FlashcoreE4m3Arguments* arguments) {
    return static_cast<int>(flashcore::call(flashcore::attention::e4m3::forward, arguments));
}

extern "C" int flashcore_e4m3_transpose(const FlashcoreE4m3TransposeArguments* arguments) {
    return static_cast<int>(flashcore::call(flashcore::attention::e4m3::transpose, arguments));
}
