// The shipped fp16 kernel for D=64, and the same with extra multiply-adds before its first tile.
#include "flashcore_attention_fwd_d64_fp16_full.cu"
#include "planted.h"

using Planted = flashcore::planted::Planted<flashcore::attention::Params>;

extern "C" __global__ void __launch_bounds__(kThreads, 1) flashcore_planted_attention_d64(const __grid_constant__ Planted planted) {
    flashcore::planted::work(planted.extra);
    flashcore::attention::forward<Tuning>(planted.params);
}

namespace {
cudaError_t launch_planted(const flashcore::attention::LocalParams& params, int ctas, cudaStream_t stream) {
    const Planted planted{static_cast<const flashcore::attention::Params&>(params), flashcore::planted::extra()};
    return flashcore::launch<flashcore_planted_attention_d64, kThreads, kSharedBytes, Planted>(planted, ctas, stream);
}
}  // namespace

extern "C" const flashcore::attention::AttentionVariant flashcore_planted_d64_variant = {Tuning::config, launch_planted};
