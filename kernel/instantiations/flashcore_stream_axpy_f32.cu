// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#include "flashcore/stream/axpy.cuh"

namespace {
struct Tuning {
    static constexpr flashcore::stream::Config config = {
        .threads = 1024, .vectors_per_thread = 1};
};
}  // namespace

extern "C" __global__ void __launch_bounds__(Tuning::config.threads)
    flashcore_stream_axpy_f32(const __grid_constant__ flashcore::stream::Params params) {
    flashcore::stream::axpy<Tuning>(params);
}

extern "C" const flashcore::stream::StreamVariant flashcore_stream_axpy_f32_variant = {
    Tuning::config,
    flashcore::launch<flashcore_stream_axpy_f32, Tuning::config.threads, 0, flashcore::stream::Params>};
