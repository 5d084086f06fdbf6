// Host launcher of the attention forward for sequences of equal length.
#include "flashcore/attention/launcher.h"

namespace flashcore::attention {
namespace {

using Arguments = FlashcoreAttentionArguments;

Status forward(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_attention(args));
    FLASHCORE_RETURN_IF_FAILED(check_extent("sq", args.sq, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("sk", args.sk, 0));
    FLASHCORE_RETURN_IF_FAILED(check_aligned("workspace", args.workspace, sizeof(TileCounter)));
    FLASHCORE_RETURN_IF_FAILED(check_local(args.local, args.sinks));
    Problem problem{static_cast<DType>(args.dtype), args.causal != 0, args.head_dim,
                          args.batch * args.heads,        args.sq,          args.sk};
    make_local_problem(args.local, problem);
    const AttentionVariant* variant = nullptr;
    FLASHCORE_RETURN_IF_FAILED(find_variant(problem, variant));
    if (problem.sequences == 0 || problem.sq == 0) return Status::kOk;
    const int64_t row_tiles_of_head = row_tiles(variant->config, problem);
    if (problem.sequences > kTileLimit / row_tiles_of_head) {
        return fail(Status::kInvalidArgument, "batch: batch * heads * query tiles must not exceed 2^30, but is %lld * %lld",
                    static_cast<long long>(problem.sequences), static_cast<long long>(row_tiles_of_head));
    }

    Device device;
    DeviceScope scope;
    FLASHCORE_RETURN_IF_FAILED(describe(args.device, device));
    FLASHCORE_RETURN_IF_FAILED(scope.enter(args.device));
    const Plan launch_plan = plan(variant->config, problem, device.multiprocessors, args.max_ctas);
    LocalParams params{};
    FLASHCORE_RETURN_IF_FAILED(fill(args, variant->config, params));
    params.schedule = launch_plan.schedule;
    return check(variant->launch(params, launch_plan.ctas, static_cast<cudaStream_t>(args.stream)), "launch");
}

}  // namespace
}  // namespace flashcore::attention

extern "C" int flashcore_attention_forward(const FlashcoreAttentionArguments* arguments) {
    return static_cast<int>(flashcore::call(flashcore::attention::forward, arguments));
}
