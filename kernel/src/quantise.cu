// Entry functions and host launcher of quantise/quantise.cuh.
#include <algorithm>

#include "flashcore/core/arguments.h"
#include "flashcore/core/device.h"
#include "flashcore/quantise/abi.h"
#include "flashcore/quantise/quantise.cuh"

using flashcore::quantise::kThreads;
using flashcore::quantise::Params;

extern "C" __global__ void __launch_bounds__(kThreads) flashcore_quantise_largest_fp16(const __grid_constant__ Params params) {
    flashcore::quantise::find_largest<flashcore::OperandOf<flashcore::DType::kFp16>>(params);
}
extern "C" __global__ void __launch_bounds__(kThreads) flashcore_quantise_largest_bf16(const __grid_constant__ Params params) {
    flashcore::quantise::find_largest<flashcore::OperandOf<flashcore::DType::kBf16>>(params);
}
extern "C" __global__ void __launch_bounds__(kThreads) flashcore_quantise_round_fp16(const __grid_constant__ Params params) {
    flashcore::quantise::round_rows<flashcore::OperandOf<flashcore::DType::kFp16>>(params);
}
extern "C" __global__ void __launch_bounds__(kThreads) flashcore_quantise_round_bf16(const __grid_constant__ Params params) {
    flashcore::quantise::round_rows<flashcore::OperandOf<flashcore::DType::kBf16>>(params);
}
extern "C" __global__ void __launch_bounds__(kThreads) flashcore_quantise_scales(const __grid_constant__ Params params) {
    flashcore::quantise::finish_scales(params);
}

namespace flashcore::quantise {
namespace {

using Arguments = FlashcoreQuantiseArguments;
using Launch = cudaError_t (*)(const Params&, int, cudaStream_t);

template <void (*kKernel)(Params)>
cudaError_t run(const Params& params, int ctas, cudaStream_t stream) {
    return launch<kKernel, kThreads, 0, Params>(params, ctas, stream);
}

constexpr int64_t kBlockLimit = int64_t{1} << 30;
constexpr size_t kRowAlignment = 8;  // four elements of 16 bits
constexpr int64_t kRowElements = 4;

Status check_arguments(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_extent("dtype", args.dtype, 0, 1));
    FLASHCORE_RETURN_IF_FAILED(check_extent("transform", args.transform, 0, 1));
    FLASHCORE_RETURN_IF_FAILED(check_extent("batch", args.batch, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("rows", args.rows, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("heads", args.heads, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("kv_heads", args.kv_heads, 1));
    if (args.heads % args.kv_heads != 0) {
        return fail(Status::kInvalidArgument, "heads: must be a multiple of kv_heads (%lld), but is %lld",
                    static_cast<long long>(args.kv_heads), static_cast<long long>(args.heads));
    }
    for (const int64_t stride : {args.batch_stride, args.row_stride, args.head_stride}) {
        if (stride % kRowElements != 0) return fail(Status::kInvalidArgument, "x: its strides must be multiples of 4 elements");
    }
    return Status::kOk;
}

Status quantise(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_arguments(args));
    const int64_t scales = args.batch * args.kv_heads;
    if (scales == 0 || args.heads == 0) return Status::kOk;
    FLASHCORE_RETURN_IF_FAILED(check_pointer("scale", args.scale, sizeof(float)));
    const int64_t blocks = (args.rows + kBlockRows - 1) / kBlockRows;
    if (blocks > 0 && args.batch * args.heads > kBlockLimit / blocks) {
        return fail(Status::kInvalidArgument, "batch: batch * heads * blocks of 128 rows must not exceed 2^30");
    }
    if (blocks > 0) FLASHCORE_RETURN_IF_FAILED(check_pointer("x", args.x, kRowAlignment));
    if (args.values != nullptr) FLASHCORE_RETURN_IF_FAILED(check_aligned("values", args.values, sizeof(uint32_t)));
    Device device;
    DeviceScope scope;
    FLASHCORE_RETURN_IF_FAILED(describe(args.device, device));
    FLASHCORE_RETURN_IF_FAILED(scope.enter(args.device));
    Params params{args.x,
                  args.batch_stride,
                  args.row_stride,
                  args.head_stride,
                  static_cast<uint8_t*>(args.values),
                  args.scale,
                  static_cast<int>(args.rows),
                  static_cast<int>(args.heads),
                  static_cast<int>(args.heads / args.kv_heads),
                  static_cast<int>(blocks),
                  static_cast<int>(scales),
                  args.transform,
                  {args.signs[0], args.signs[1], args.signs[2], args.signs[3]}};
    const cudaStream_t stream = static_cast<cudaStream_t>(args.stream);
    FLASHCORE_RETURN_IF_FAILED(check(cudaMemsetAsync(args.scale, 0, scales * sizeof(float), stream), "memset"));
    const int ctas = static_cast<int>(blocks * args.batch * args.heads);
    const bool is_bf16 = args.dtype == static_cast<int>(DType::kBf16);
    if (ctas > 0) {
        const Launch find = is_bf16 ? run<flashcore_quantise_largest_bf16> : run<flashcore_quantise_largest_fp16>;
        FLASHCORE_RETURN_IF_FAILED(check(find(params, ctas, stream), "launch"));
        const Launch round = is_bf16 ? run<flashcore_quantise_round_bf16> : run<flashcore_quantise_round_fp16>;
        if (args.values != nullptr) FLASHCORE_RETURN_IF_FAILED(check(round(params, ctas, stream), "launch"));
    }
    const int scale_ctas = static_cast<int>((scales + kThreads - 1) / kThreads);
    return check(run<flashcore_quantise_scales>(params, scale_ctas, stream), "launch");
}

}  // namespace
}  // namespace flashcore::quantise

extern "C" int flashcore_quantise(const FlashcoreQuantiseArguments* arguments) {
    return static_cast<int>(flashcore::call(flashcore::quantise::quantise, arguments));
}
