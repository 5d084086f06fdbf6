// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#include "flashcore/decode/decode.cuh"

namespace {
struct Tuning {
    static constexpr flashcore::decode::Config config = {
        .head_dim = 256, .dtype = flashcore::DType::kE4m3, .tile_keys = 64, .stages = 6,
        .consumer_warps = 4, .fp8_cache = true, .key_scales = true};
};
constexpr int kThreads = flashcore::decode::threads(Tuning::config);
constexpr int kSharedBytes = 232448;
static_assert(kSharedBytes == flashcore::decode::shared_bytes(Tuning::config), "kernel/variants.toml must agree");
}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    flashcore_decode_key_scales_d256(const __grid_constant__ flashcore::decode::KeyScaleParams params) {
    flashcore::decode::decode<Tuning>(params);
}

extern "C" const flashcore::decode::KeyScaleDecodeVariant flashcore_decode_key_scales_d256_variant = {
    Tuning::config, flashcore::launch<flashcore_decode_key_scales_d256, kThreads, kSharedBytes, flashcore::decode::KeyScaleParams>};
