// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#include "flashcore/attention/forward.cuh"

namespace {
struct Tuning {
    static constexpr flashcore::attention::Config config = {
        .head_dim = 256, .dtype = flashcore::attention::DType::kBf16, .causal = true, .tile_m = 128,
        .tile_n = 64, .q_stages = 1, .kv_stages = 2, .consumer_warpgroups = 2,
        .ping_pong_barrier = true, .query_in_registers = false,
        .tma_store_epilogue = false, .stale_max_speculation = false,
        .recompute_qk = false, .paged_kv = true,
        .local = true, .softcap = false};
};
constexpr int kThreads = flashcore::attention::threads(Tuning::config);
constexpr int kSharedBytes = 197632;
static_assert(kSharedBytes == flashcore::attention::shared_bytes(Tuning::config), "kernel/variants.toml must agree");
}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    flashcore_attention_local_paged_d256_bf16(const __grid_constant__ flashcore::attention::LocalParams params) {
    flashcore::attention::forward<Tuning>(params);
}

extern "C" const flashcore::attention::AttentionVariant flashcore_attention_local_paged_d256_bf16_variant = {
    Tuning::config, flashcore::launch<flashcore_attention_local_paged_d256_bf16, kThreads, kSharedBytes, flashcore::attention::LocalParams>};
