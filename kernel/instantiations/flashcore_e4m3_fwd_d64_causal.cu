// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#include "flashcore/attention/e4m3/forward.cuh"

namespace {
struct Tuning {
    static constexpr flashcore::attention::Config config = {
        .head_dim = 64, .dtype = flashcore::attention::DType::kE4m3, .causal = true, .tile_m = 192,
        .tile_n = 128, .q_stages = 2, .kv_stages = 4, .consumer_warpgroups = 3,
        .ping_pong_barrier = true, .query_in_registers = false,
        .tma_store_epilogue = false, .stale_max_speculation = false,
        .recompute_qk = false, .paged_kv = false};
    static constexpr flashcore::attention::e4m3::Softmax softmax = {
        .offset = 8, .polynomials = 1, .rounded_sums = true, .half_packing = false};
    static constexpr flashcore::attention::e4m3::Products products = {
        .columns = 64};
};
constexpr int kThreads = flashcore::attention::threads(Tuning::config);
constexpr int kSharedBytes = 152576;
static_assert(kSharedBytes == flashcore::attention::e4m3::shared_bytes(Tuning::config, Tuning::softmax),
              "kernel/variants.toml must agree");
}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    flashcore_e4m3_fwd_d64_causal(const __grid_constant__ flashcore::attention::e4m3::ForwardParams params) {
    flashcore::attention::e4m3::forward<Tuning>(params);
}

extern "C" const flashcore::attention::e4m3::ForwardVariant flashcore_e4m3_fwd_d64_causal_variant = {
    Tuning::config, flashcore::launch<flashcore_e4m3_fwd_d64_causal, kThreads, kSharedBytes, flashcore::attention::e4m3::ForwardParams>};
