// Host launcher of the attention forward for sequences of different lengths. A first kernel lays out the batch on the device.
#include <algorithm>
#include <cstdint>

#include "flashcore/attention/launcher.h"
#include "flashcore/attention/paged_launcher.h"
#include "flashcore/attention/shared_heads.h"
#include "flashcore/attention/varlen.h"

extern "C" const flashcore::attention::PrepareVariant flashcore_attention_prepare_variant;

namespace flashcore::attention {
namespace {

using Arguments = FlashcoreVarlenArguments;

bool is_paged(const Arguments& args) { return args.page_size != 0; }

// Packed rows have only two strides. The stride of a single row is not used, so it becomes one that the tensor map accepts.
Status check_rows(const char* name, int64_t rows, FlashcoreOperand& operand) {
    if (rows == 1) operand.sequence_stride = kTensorAlignment;
    operand.batch_stride = operand.sequence_stride;
    if (operand.sequence_stride * kBytesPerElement < kVarlenStrideLimit) return Status::kOk;
    return fail(Status::kInvalidArgument, "%s: the sequence stride must be below 2^33 bytes, but is %lld bytes", name,
                static_cast<long long>(operand.sequence_stride * kBytesPerElement));
}

// Views all rows as one sequence.
Status packed_view(const Arguments& args, FlashcoreAttentionArguments& view) {
    view.dtype = args.dtype;
    view.causal = args.causal;
    view.scale = args.scale;
    view.batch = 1;
    view.heads = args.heads;
    view.kv_heads = args.kv_heads;
    view.sq = args.total_q;
    view.sk = is_paged(args) ? 0 : args.total_k;  // pages have maps of their own
    view.head_dim = args.head_dim;
    view.q = args.q;
    view.k = args.k;
    view.v = args.v;
    view.out = args.out;
    view.lse = args.lse;
    view.workspace = args.workspace;
    view.local = args.local;
    view.sinks = args.sinks;
    view.loaded_tiles = args.loaded_tiles;
    const int64_t rows = is_paged(args) ? args.page_size : args.total_k;
    FLASHCORE_RETURN_IF_FAILED(check_rows("q", args.total_q, view.q));
    FLASHCORE_RETURN_IF_FAILED(check_rows("k", rows, view.k));
    FLASHCORE_RETURN_IF_FAILED(check_rows("v", rows, view.v));
    return check_rows("out", args.total_q, view.out);
}

// The address `bytes` before `data`. Nothing is read or written there.
template <class T>
T* address_before(T* data, int64_t bytes) {
    return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(data) - static_cast<uintptr_t>(bytes));
}

// Sets what ordinary stores need for the tensor maps in which one batch ends at every row (params.h).
void end_at_every_row(Params& params) {
    params.wrap = params.sq = params.sk = kBatchRows;
    params.out.data = address_before(params.out.data, kBatchRows * params.out.sequence_stride * kBytesPerElement);
    if (params.lse != nullptr) params.lse = address_before(params.lse, kBatchRows * static_cast<int64_t>(sizeof(float)));
    params.lse_batch_stride = 1;
}

Status check_varlen(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_attention(args));
    FLASHCORE_RETURN_IF_FAILED(check_extent("total_q", args.total_q, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("total_k", args.total_k, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("min_queries", args.min_queries, 0, is_paged(args) ? kExtentLimit : 0));
    FLASHCORE_RETURN_IF_FAILED(check_pointer("cu_seqlens_q", args.cu_seqlens_q));
    FLASHCORE_RETURN_IF_FAILED(is_paged(args) ? check_pages(args) : check_pointer("cu_seqlens_k", args.cu_seqlens_k));
    FLASHCORE_RETURN_IF_FAILED(check_pointer("workspace", args.workspace, alignof(SequenceInfo)));
    if (args.workspace_bytes >= workspace_bytes(args.batch)) return Status::kOk;
    return fail(Status::kInvalidArgument, "workspace_bytes: must be at least %lld, but is %lld",
                static_cast<long long>(workspace_bytes(args.batch)), static_cast<long long>(args.workspace_bytes));
}

// Upper limit of the number of tiles. Only the device knows the exact number. The last tile of a sequence may be partly empty.
int64_t max_tiles(const Arguments& args, const Config& config) {
    return args.heads * (args.total_q / config.tile_m + std::min(args.batch, args.total_q));
}

// Tiles of all heads of a sequence whose rows are for one warpgroup only. 0 if no heads share tiles.
int shared_tiles(const Arguments& args, const Config& config) {
    if (!can_share_heads(config) || args.heads == args.kv_heads) return 0;
    const auto heads_per_kv_head = static_cast<int>(args.heads / args.kv_heads);
    return static_cast<int>(args.kv_heads) * split_heads(heads_per_kv_head, config.consumer_warpgroups).tiles;
}

// The input of the kernel that prepares the batch. The caller has filled in the parameters of the entry function.
PagedBatch batch_of(const Arguments& args, const Config& config, const Params& params, bool causal, int64_t ctas) {
    const int64_t keys = is_paged(args) ? capacity(args) : args.total_k;
    return {{{args.cu_seqlens_q, args.seqused_q, static_cast<int>(args.total_q)},
             {args.cu_seqlens_k, args.seqused_k, static_cast<int>(keys)},
             static_cast<SequenceInfo*>(args.workspace) + 1,
             params.tile_counter,
             static_cast<int>(args.batch),
             params.heads,
             config.head_dim,
             config.tile_m,
             causal,
             shared_tiles(args, config),
             static_cast<int>(ctas)},
            static_cast<int>(args.min_queries),
            !is_paged(args)};
}

Status forward(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_varlen(args));
    FLASHCORE_RETURN_IF_FAILED(check_local(args.local, args.sinks));
    Problem problem{static_cast<DType>(args.dtype), args.causal != 0, args.head_dim, 1, args.total_q,
                    is_paged(args) ? capacity(args) : args.total_k, is_paged(args)};
    make_local_problem(args.local, problem);
    const AttentionVariant* variant = nullptr;
    FLASHCORE_RETURN_IF_FAILED(find_variant(problem, variant));
    if (args.batch == 0 || args.heads == 0 || args.total_q == 0) return Status::kOk;
    const int64_t tiles = max_tiles(args, variant->config);
    if (tiles > kTileLimit) {
        return fail(Status::kInvalidArgument, "total_q: query tiles of all heads must not exceed 2^30, but may be %lld",
                    static_cast<long long>(tiles));
    }

    Device device;
    DeviceScope scope;
    FLASHCORE_RETURN_IF_FAILED(describe(args.device, device));
    FLASHCORE_RETURN_IF_FAILED(scope.enter(args.device));
    const int64_t ctas = persistent_ctas(device.multiprocessors, args.max_ctas);
    const bool as_page = reads_rows_as_page(args, problem, ctas);
    if (as_page) {  // the tiles are the same
        problem.paged = true;
        FLASHCORE_RETURN_IF_FAILED(find_variant(problem, variant));
    }
    FlashcoreAttentionArguments view{};
    FLASHCORE_RETURN_IF_FAILED(packed_view(args, view));
    LocalParams params{};
    params.sequence_infos = static_cast<const SequenceInfo*>(args.workspace) + 1;
    params.schedule.sequences = static_cast<int>(args.batch);
    FLASHCORE_RETURN_IF_FAILED(fill(view, variant->config, params));
    end_at_every_row(params);
    if (problem.paged) FLASHCORE_RETURN_IF_FAILED(fill_pages(as_page ? rows_as_page(args) : args, variant->config, params));

    const PagedBatch batch = batch_of(args, variant->config, params, problem.causal, ctas);
    const auto stream = static_cast<cudaStream_t>(args.stream);
    FLASHCORE_RETURN_IF_FAILED(check(flashcore_attention_prepare_variant.launch(batch, 1, stream), "launch"));
    return check(variant->launch(params, std::min(tiles, ctas), stream), "launch");
}

Status measure(const Arguments& args, int64_t& bytes) {
    bytes = workspace_bytes(args.batch);
    return check_extent("batch", args.batch, 0);
}

}  // namespace
}  // namespace flashcore::attention

extern "C" int flashcore_attention_varlen(const FlashcoreVarlenArguments* arguments) {
    return static_cast<int>(flashcore::call(flashcore::attention::forward, arguments));
}

extern "C" int64_t flashcore_attention_varlen_workspace_bytes(const FlashcoreVarlenArguments* arguments) {
    int64_t bytes = 0;
    return flashcore::call(flashcore::attention::measure, arguments, bytes) == flashcore::Status::kOk ? bytes : -1;
}
