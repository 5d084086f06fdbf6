// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#include "flashcore/attention/e4m3/transpose.cuh"

namespace {
constexpr int kThreads = 128;
constexpr int kColumns = 64;
}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 16) flashcore_e4m3_transpose_bf16(
    const __grid_constant__ flashcore::attention::e4m3::TransposeParams params) {
    flashcore::attention::e4m3::transpose_values<flashcore::OperandOf<flashcore::DType::kBf16>, kThreads, kColumns>(params);
}

extern "C" const flashcore::attention::e4m3::TransposeVariant flashcore_e4m3_transpose_bf16_variant = {
    {kThreads, flashcore::DType::kBf16},
    flashcore::launch<flashcore_e4m3_transpose_bf16, kThreads, 0, flashcore::attention::e4m3::TransposeParams>};
