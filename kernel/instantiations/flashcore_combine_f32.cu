// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#include "flashcore/combine/combine.cuh"

namespace {
struct Tuning {
    static constexpr flashcore::combine::Config config = {
        .threads = 256, .ctas_per_multiprocessor = 5, .splits_in_flight = 8};
};
}  // namespace

extern "C" __global__ void __launch_bounds__(Tuning::config.threads, Tuning::config.ctas_per_multiprocessor)
    flashcore_combine_f32(const __grid_constant__ flashcore::combine::Params params) {
    flashcore::combine::combine<Tuning>(params);
}

extern "C" const flashcore::combine::CombineVariant flashcore_combine_f32_variant = {
    Tuning::config,
    flashcore::launch<flashcore_combine_f32, Tuning::config.threads, 0, flashcore::combine::Params>};
