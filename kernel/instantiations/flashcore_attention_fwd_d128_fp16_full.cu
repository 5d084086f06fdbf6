// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#include "flashcore/attention/forward.cuh"

namespace {
struct Tuning {
    static constexpr flashcore::attention::Config config = {
        .head_dim = 128, .dtype = flashcore::attention::DType::kFp16, .causal = false, .tile_m = 128,
        .tile_n = 128, .q_stages = 1, .kv_stages = 3, .consumer_warpgroups = 2,
        .ping_pong_barrier = false, .query_in_registers = true,
        .tma_store_epilogue = false, .stale_max_speculation = true,
        .recompute_qk = true, .paged_kv = false};
};
constexpr int kThreads = flashcore::attention::threads(Tuning::config);
constexpr int kSharedBytes = 230400;
static_assert(kSharedBytes == flashcore::attention::shared_bytes(Tuning::config), "kernel/variants.toml must agree");
}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    flashcore_attention_fwd_d128_fp16_full(const __grid_constant__ flashcore::attention::Params params) {
    flashcore::attention::forward<Tuning>(params);
}

extern "C" const flashcore::attention::AttentionVariant flashcore_attention_fwd_d128_fp16_full_variant = {
    Tuning::config, flashcore::launch<flashcore_attention_fwd_d128_fp16_full, kThreads, kSharedBytes, flashcore::attention::LocalParams>};
