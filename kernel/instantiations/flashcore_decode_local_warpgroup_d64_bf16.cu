// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#include "flashcore/decode/decode.cuh"

namespace {
struct Tuning {
    static constexpr flashcore::decode::Config config = {
        .head_dim = 64, .dtype = flashcore::DType::kBf16, .tile_keys = 64, .stages = 6,
        .consumer_warps = 4, .ragged = true, .local = true, .warpgroup = true,
        .producer_warps = 1, .ctas_per_multiprocessor = 2};
};
constexpr int kThreads = flashcore::decode::threads(Tuning::config);
constexpr int kSharedBytes = 99328;
static_assert(kSharedBytes == flashcore::decode::shared_bytes(Tuning::config), "kernel/variants.toml must agree");
}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 2)
    flashcore_decode_local_warpgroup_d64_bf16(const __grid_constant__ flashcore::decode::LocalParams params) {
    flashcore::decode::decode<Tuning>(params);
}

extern "C" const flashcore::decode::LocalDecodeVariant flashcore_decode_local_warpgroup_d64_bf16_variant = {
    Tuning::config, flashcore::launch<flashcore_decode_local_warpgroup_d64_bf16, kThreads, kSharedBytes, flashcore::decode::LocalParams>};
