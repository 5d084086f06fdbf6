// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#include "flashcore/attention/varlen_prepare.cuh"

namespace {
constexpr int kThreads = 1024;
}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads) flashcore_attention_prepare(
    const __grid_constant__ flashcore::attention::PagedBatch batch) {
    flashcore::attention::prepare_batch<kThreads>(batch);
}

extern "C" const flashcore::attention::PrepareVariant flashcore_attention_prepare_variant = {
    {kThreads}, flashcore::launch<flashcore_attention_prepare, kThreads, 0, flashcore::attention::PagedBatch>};
