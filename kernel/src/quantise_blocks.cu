// Entry functions and host launchers of quantise/blocks.cuh.
#include "flashcore/core/arguments.h"
#include "flashcore/core/device.h"
#include "flashcore/quantise/abi.h"
#include "flashcore/quantise/blocks.cuh"

using flashcore::quantise::BlockParams;
using flashcore::quantise::kBlockThreads;
using flashcore::quantise::PermuteParams;

extern "C" __global__ void __launch_bounds__(kBlockThreads) flashcore_quantise_rows_fp16(const __grid_constant__ BlockParams params) {
    flashcore::quantise::round_blocks<flashcore::OperandOf<flashcore::DType::kFp16>>(params);
}
extern "C" __global__ void __launch_bounds__(kBlockThreads) flashcore_quantise_rows_bf16(const __grid_constant__ BlockParams params) {
    flashcore::quantise::round_blocks<flashcore::OperandOf<flashcore::DType::kBf16>>(params);
}
extern "C" __global__ void __launch_bounds__(kBlockThreads)
    flashcore_quantise_values_fp16(const __grid_constant__ BlockParams params) {
    flashcore::quantise::round_value_blocks<flashcore::OperandOf<flashcore::DType::kFp16>>(params);
}
extern "C" __global__ void __launch_bounds__(kBlockThreads)
    flashcore_quantise_values_bf16(const __grid_constant__ BlockParams params) {
    flashcore::quantise::round_value_blocks<flashcore::OperandOf<flashcore::DType::kBf16>>(params);
}
extern "C" __global__ void __launch_bounds__(kBlockThreads) flashcore_e4m3_permute_values(const __grid_constant__ PermuteParams params) {
    flashcore::quantise::permute_values(params);
}

namespace flashcore::quantise {
namespace {

using Arguments = FlashcoreQuantiseBlocksArguments;
using PermuteArguments = FlashcoreE4m3PermuteArguments;
using Launch = cudaError_t (*)(const BlockParams&, int, cudaStream_t);

template <void (*kKernel)(BlockParams)>
cudaError_t run(const BlockParams& params, int ctas, cudaStream_t stream) {
    return launch<kKernel, kBlockThreads, 0, BlockParams>(params, ctas, stream);
}

constexpr int kKeys = 1;
constexpr int kValues = 2;
constexpr int64_t kBlockLimit = int64_t{1} << 30;
constexpr int64_t kBlockRows[] = {64, 128, 128};  // rows of a block of each kind
constexpr int64_t kAlignment = 16;

Status check_head_dim(int64_t head_dim) {
    if (head_dim == 64 || head_dim == 128 || head_dim == 256) return Status::kOk;
    return fail(Status::kInvalidArgument, "head_dim: must be 64, 128 or 256 for E4M3, but is %lld", static_cast<long long>(head_dim));
}

Status check_arguments(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_extent("dtype", args.dtype, 0, 1));
    FLASHCORE_RETURN_IF_FAILED(check_extent("kind", args.kind, 0, kValues));
    FLASHCORE_RETURN_IF_FAILED(check_extent("transform", args.transform, 0, args.kind == kValues ? 0 : 1));
    FLASHCORE_RETURN_IF_FAILED(check_extent("batch", args.batch, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("rows", args.rows, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("heads", args.heads, 0));
    FLASHCORE_RETURN_IF_FAILED(check_head_dim(args.head_dim));
    const int64_t lane_elements = args.head_dim / 32;
    for (const int64_t stride : {args.batch_stride, args.row_stride, args.head_stride}) {
        if (stride % lane_elements != 0) {
            return fail(Status::kInvalidArgument, "x: its strides must be multiples of %lld elements",
                        static_cast<long long>(lane_elements));
        }
    }
    return Status::kOk;
}

Status quantise_blocks(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_arguments(args));
    if (args.batch * args.heads == 0 || args.rows == 0) return Status::kOk;
    const int64_t block_rows = kBlockRows[args.kind];
    const int64_t blocks = (args.rows + block_rows - 1) / block_rows;
    if (args.batch * args.heads > kBlockLimit / blocks) {
        return fail(Status::kInvalidArgument, "batch: batch * heads * blocks must not exceed 2^30");
    }
    FLASHCORE_RETURN_IF_FAILED(check_pointer("x", args.x, static_cast<size_t>(args.head_dim / 16)));
    FLASHCORE_RETURN_IF_FAILED(check_pointer("values", args.values, kAlignment));
    FLASHCORE_RETURN_IF_FAILED(check_pointer("scale", args.scale, sizeof(float)));
    Device device;
    DeviceScope scope;
    FLASHCORE_RETURN_IF_FAILED(describe(args.device, device));
    FLASHCORE_RETURN_IF_FAILED(scope.enter(args.device));
    BlockParams params{args.x,
                       args.batch_stride,
                       args.row_stride,
                       args.head_stride,
                       static_cast<uint8_t*>(args.values),
                       args.scale,
                       static_cast<int>(args.rows),
                       static_cast<int>(args.heads),
                       static_cast<int>(args.head_dim),
                       static_cast<int>(blocks),
                       static_cast<int>(block_rows),
                       args.transform,
                       args.kind == kKeys ? args.transform : 0,
                       {}};
    for (int i = 0; i < kSignWords; ++i) params.signs[i] = args.signs[i];
    const bool is_bf16 = args.dtype == static_cast<int>(DType::kBf16);
    const Launch rows = is_bf16 ? run<flashcore_quantise_rows_bf16> : run<flashcore_quantise_rows_fp16>;
    const Launch values = is_bf16 ? run<flashcore_quantise_values_bf16> : run<flashcore_quantise_values_fp16>;
    const auto ctas = static_cast<int>(blocks * args.batch * args.heads);
    return check((args.kind == kValues ? values : rows)(params, ctas, static_cast<cudaStream_t>(args.stream)), "launch");
}

Status permute(const PermuteArguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_extent("batch", args.batch, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("kv_heads", args.kv_heads, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("sk", args.sk, 0));
    FLASHCORE_RETURN_IF_FAILED(check_head_dim(args.head_dim));
    if (args.batch * args.kv_heads == 0 || args.sk == 0) return Status::kOk;
    FLASHCORE_RETURN_IF_FAILED(check_pointer("v", args.v));
    FLASHCORE_RETURN_IF_FAILED(check_pointer("values", args.values, kAlignment));
    const int64_t blocks = (args.sk + attention::kValueKeys - 1) / attention::kValueKeys;
    if (args.batch * args.kv_heads > kBlockLimit / (blocks * args.head_dim)) {
        return fail(Status::kInvalidArgument, "batch: batch * kv_heads * head_dim * blocks of 128 keys must not exceed 2^30");
    }
    bool aligned = reinterpret_cast<uintptr_t>(args.v) % kAlignment == 0;
    for (const int64_t stride : {args.batch_stride, args.column_stride, args.head_stride}) {
        aligned = aligned && stride % kAlignment == 0;
    }
    Device device;
    DeviceScope scope;
    FLASHCORE_RETURN_IF_FAILED(describe(args.device, device));
    FLASHCORE_RETURN_IF_FAILED(scope.enter(args.device));
    const int64_t units = args.batch * args.kv_heads * args.head_dim * blocks * (attention::kValueKeys / 16);
    const PermuteParams params{static_cast<const uint8_t*>(args.v),
                               args.batch_stride,
                               args.column_stride,
                               args.head_stride,
                               static_cast<uint8_t*>(args.values),
                               static_cast<int>(args.sk),
                               static_cast<int>(blocks),
                               static_cast<int>(args.kv_heads),
                               static_cast<int>(args.head_dim),
                               aligned ? 1 : 0,
                               units};
    const auto ctas = static_cast<int>((units + kBlockThreads - 1) / kBlockThreads);
    return check(launch<flashcore_e4m3_permute_values, kBlockThreads, 0, PermuteParams>(params, ctas, static_cast<cudaStream_t>(args.stream)),
                 "launch");
}

}  // namespace
}  // namespace flashcore::quantise

extern "C" int flashcore_quantise_blocks(const FlashcoreQuantiseBlocksArguments* arguments) {
    return static_cast<int>(flashcore::call(flashcore::quantise::quantise_blocks, arguments));
}

extern "C" int flashcore_e4m3_permute(const FlashcoreE4m3PermuteArguments* arguments) {
    return static_cast<int>(flashcore::call(flashcore::quantise::permute, arguments));
}
