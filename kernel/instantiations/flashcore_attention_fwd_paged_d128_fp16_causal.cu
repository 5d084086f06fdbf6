// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#include "flashcore/attention/forward.cuh"

namespace {
struct Tuning {
    static constexpr flashcore::attention::Config config = {
        .head_dim = 128, .dtype = flashcore::attention::DType::kFp16, .causal = true, .tile_m = 128,
        .tile_n = 128, .q_stages = 1, .kv_stages = 3, .consumer_warpgroups = 2,
        .ping_pong_barrier = false, .query_in_registers = true,
        .tma_store_epilogue = false, .stale_max_speculation = true,
        .recompute_qk = true, .paged_kv = true};
};
constexpr int kThreads = flashcore::attention::threads(Tuning::config);
constexpr int kSharedBytes = 230400;
static_assert(kSharedBytes == flashcore::attention::shared_bytes(Tuning::config), "kernel/variants.toml must agree");
}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    flashcore_attention_fwd_paged_d128_fp16_causal(const __grid_constant__ flashcore::attention::PagedParams params) {
    flashcore::attention::forward<Tuning>(params);
}

extern "C" const flashcore::attention::AttentionVariant flashcore_attention_fwd_paged_d128_fp16_causal_variant = {
    Tuning::config, flashcore::launch<flashcore_attention_fwd_paged_d128_fp16_causal, kThreads, kSharedBytes, flashcore::attention::LocalParams>};
