// The streaming kernel with extra blocks that repeat the first tiles, with real traffic on the memory bus.
#include "flashcore/stream/axpy.cuh"
#include "planted.h"

using Planted = flashcore::planted::Planted<flashcore::stream::Params>;

namespace {
struct Tuning {
    static constexpr flashcore::stream::Config config = {.threads = 1024, .vectors_per_thread = 1};
};
}  // namespace

extern "C" __global__ void __launch_bounds__(Tuning::config.threads)
    flashcore_planted_stream(const __grid_constant__ Planted planted) {
    constexpr int kTile = flashcore::stream::vectors_per_tile(Tuning::config);
    const int64_t vectors = planted.params.count / flashcore::stream::kFloatsPerVector;
    const int64_t tiles = gridDim.x - planted.extra;
    const int64_t tile = blockIdx.x < tiles ? blockIdx.x : blockIdx.x - tiles;
    flashcore::stream::axpy_tile<Tuning::config.threads, Tuning::config.vectors_per_thread>(
        planted.params, tile * kTile + threadIdx.x, vectors);
    const int64_t tail = vectors * flashcore::stream::kFloatsPerVector + threadIdx.x;
    if (blockIdx.x == 0 && tail < planted.params.count) {
        planted.params.out[tail] = fmaf(planted.params.a, planted.params.x[tail], planted.params.y[tail]);
    }
}

namespace {
cudaError_t launch_planted(const flashcore::stream::Params& params, int ctas, cudaStream_t stream) {
    const Planted planted{params, flashcore::planted::extra()};
    return flashcore::launch<flashcore_planted_stream, Tuning::config.threads, 0, Planted>(planted, ctas + planted.extra, stream);
}
}  // namespace

extern "C" const flashcore::stream::StreamVariant flashcore_stream_axpy_f32_variant = {Tuning::config, launch_planted};
