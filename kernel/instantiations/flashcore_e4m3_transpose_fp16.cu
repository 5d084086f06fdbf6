// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#include "flashcore/attention/transpose_values.cuh"

namespace {
constexpr int kThreads = 256;
}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) flashcore_e4m3_transpose_fp16(
    const __grid_constant__ flashcore::attention::TransposeParams params) {
    flashcore::attention::transpose_values<flashcore::OperandOf<flashcore::DType::kFp16>, kThreads>(params);
}

extern "C" const flashcore::attention::TransposeVariant flashcore_e4m3_transpose_fp16_variant = {
    {kThreads, flashcore::DType::kFp16},
    flashcore::launch<flashcore_e4m3_transpose_fp16, kThreads, 0, flashcore::attention::TransposeParams>};
