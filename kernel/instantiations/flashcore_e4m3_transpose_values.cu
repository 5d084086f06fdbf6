// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#include "flashcore/attention/e4m3/transpose.cuh"

namespace {
constexpr int kThreads = 128;
constexpr int kColumns = 64;
}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 16) flashcore_e4m3_transpose_values(
    const __grid_constant__ flashcore::attention::e4m3::TransposeParams params) {
    flashcore::attention::e4m3::transpose_values<kThreads, kColumns>(params);
}

extern "C" const flashcore::attention::e4m3::TransposeVariant flashcore_e4m3_transpose_values_variant = {
    {kThreads}, flashcore::launch<flashcore_e4m3_transpose_values, kThreads, 0, flashcore::attention::e4m3::TransposeParams>};
