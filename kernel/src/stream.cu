// Host launcher of the streaming kernel: validate, choose the grid, launch.
#include "flashcore/stream/abi.h"

#include <algorithm>
#include <cstdint>

#include "flashcore/core/arguments.h"
#include "flashcore/core/device.h"
#include "flashcore/core/status.h"
#include "flashcore/stream/config.h"

extern "C" const flashcore::stream::StreamVariant flashcore_stream_axpy_f32_variant;

namespace flashcore::stream {
namespace {

constexpr size_t kAlignment = 16;
constexpr int64_t kMaxCtas = INT32_MAX;  // largest grid

// Chooses one CTA per tile, or fewer if the caller limits them. CTAs then take several tiles.
int choose_ctas(const Config& config, int64_t count, int max_ctas) {
    const int64_t per_tile = int64_t{vectors_per_tile(config)} * kFloatsPerVector;
    const int64_t tiles = (count + per_tile - 1) / per_tile;
    return static_cast<int>(std::min(tiles, max_ctas > 0 ? max_ctas : kMaxCtas));
}

Status axpy(const FlashcoreStreamArguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_count("count", args.count));
    FLASHCORE_RETURN_IF_FAILED(check_count("max_ctas", args.max_ctas));
    if (args.count == 0) return Status::kOk;
    FLASHCORE_RETURN_IF_FAILED(check_pointer("x", args.x, kAlignment));
    FLASHCORE_RETURN_IF_FAILED(check_pointer("y", args.y, kAlignment));
    FLASHCORE_RETURN_IF_FAILED(check_pointer("out", args.out, kAlignment));

    Device device;
    DeviceScope scope;
    FLASHCORE_RETURN_IF_FAILED(describe(args.device, device));
    FLASHCORE_RETURN_IF_FAILED(scope.enter(args.device));
    const StreamVariant& variant = flashcore_stream_axpy_f32_variant;
    const Params params{args.x, args.y, args.out, args.count, args.a};
    const int ctas = choose_ctas(variant.config, args.count, args.max_ctas);
    return check(variant.launch(params, ctas, static_cast<cudaStream_t>(args.stream)), "launch");
}

}  // namespace
}  // namespace flashcore::stream

extern "C" int flashcore_stream_axpy(const FlashcoreStreamArguments* arguments) {
    return static_cast<int>(flashcore::call(flashcore::stream::axpy, arguments));
}
