// Host launcher of the attention forward in E4M3 for sequences of different lengths. A first kernel lays out the batch on the
// device, as that of varlen.cu, and transposes the values.
#include <algorithm>
#include <cstdint>

#include "flashcore/attention/e4m3/launcher.h"

namespace flashcore::attention::e4m3 {
namespace {

using Arguments = FlashcoreE4m3VarlenArguments;

// As in attention/launcher.h.
constexpr int64_t kWrapStride = int64_t{1} << 34;         // bytes
constexpr int64_t kVarlenStrideLimit = int64_t{1} << 33;  // bytes
constexpr int64_t kOutBytes = 2;

// The parts of the workspace: the tile counter, the sequence infos, the numbers of their sequences, the transposed values.
struct Workspace {
    int64_t infos;
    int64_t sequences;
    int64_t values;
    int64_t end;
};

int64_t round_up(int64_t bytes) { return (bytes + kCounterBytes - 1) / kCounterBytes * kCounterBytes; }

// Bytes of a column of transposed values.
int64_t value_pitch(const Arguments& args) { return value_blocks(args.total_k, args.batch) * kValueKeys; }

Workspace layout(const Arguments& args) {
    Workspace parts{};
    parts.infos = kCounterBytes;
    parts.sequences = parts.infos + (args.batch + 1) * static_cast<int64_t>(sizeof(SequenceInfo));
    parts.values = round_up(parts.sequences + args.batch * static_cast<int64_t>(sizeof(int)));
    parts.end = parts.values + args.kv_heads * args.head_dim * value_pitch(args);
    return parts;
}

Status check_sizes(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_extent("batch", args.batch, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("kv_heads", args.kv_heads, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("total_k", args.total_k, 0));
    FLASHCORE_RETURN_IF_FAILED(check_head_dim(args.head_dim));
    if (value_pitch(args) <= kExtentLimit) return Status::kOk;
    return fail(Status::kInvalidArgument, "total_k: total_k + 128 * batch must not exceed 2^30, but is %lld",
                static_cast<long long>(value_pitch(args)));
}

// Packed rows have only two strides. The stride of a single row is not used, so it becomes one that the tensor map accepts.
Status check_rows(const char* name, int64_t rows, int64_t heads, int64_t head_dim, int64_t bytes, FlashcoreOperand& operand) {
    if (rows == 1) operand.sequence_stride = kTensorAlignment;
    operand.batch_stride = operand.sequence_stride;
    FLASHCORE_RETURN_IF_FAILED(check_tensor(
        {name, operand.data, {head_dim, rows, heads, 1}, {operand.sequence_stride * bytes, operand.head_stride * bytes, 0}, {}}));
    if (operand.sequence_stride * bytes < kVarlenStrideLimit) return Status::kOk;
    return fail(Status::kInvalidArgument, "%s: the sequence stride must be below 2^33 bytes, but is %lld bytes", name,
                static_cast<long long>(operand.sequence_stride * bytes));
}

Status check_operands(Arguments& args) {
    const auto check_operand = [&](const char* name, int64_t rows, int64_t heads, int64_t bytes, FlashcoreOperand& operand) {
        return check_rows(name, rows, heads, args.head_dim, bytes, operand);
    };
    FLASHCORE_RETURN_IF_FAILED(check_operand("q", args.total_q, args.heads, 1, args.q));
    FLASHCORE_RETURN_IF_FAILED(check_operand("out", args.total_q, args.heads, kOutBytes, args.out));
    if (args.total_k == 0) return Status::kOk;
    FLASHCORE_RETURN_IF_FAILED(check_operand("k", args.total_k, args.kv_heads, 1, args.k));
    return check_operand("v", args.total_k, args.kv_heads, 1, args.v);
}

Status check_varlen(const Arguments& args) {
    struct {
        int32_t dtype, max_ctas;
        float scale;
        int64_t batch, heads, kv_heads;
    } const numbers{static_cast<int32_t>(DType::kBf16), args.max_ctas, args.scale, args.batch, args.heads, args.kv_heads};
    FLASHCORE_RETURN_IF_FAILED(check_attention(numbers));
    FLASHCORE_RETURN_IF_FAILED(check_extent("total_q", args.total_q, 0));
    FLASHCORE_RETURN_IF_FAILED(check_sizes(args));
    FLASHCORE_RETURN_IF_FAILED(check_pointer("cu_seqlens_q", args.cu_seqlens_q));
    FLASHCORE_RETURN_IF_FAILED(check_pointer("cu_seqlens_k", args.cu_seqlens_k));
    FLASHCORE_RETURN_IF_FAILED(check_pointer("workspace", args.workspace, kCounterBytes));
    if (args.workspace_bytes >= layout(args).end) return Status::kOk;
    return fail(Status::kInvalidArgument, "workspace_bytes: must be at least %lld, but is %lld",
                static_cast<long long>(layout(args).end), static_cast<long long>(args.workspace_bytes));
}

// Upper limit of the number of tiles, as in varlen.cu.
Status count_tiles(const Arguments& args, const Config& config, int64_t& tiles) {
    tiles = args.heads * (args.total_q / config.tile_m + std::min(args.batch, args.total_q));
    if (tiles > kTileLimit || args.heads > kTileLimit / args.batch) {
        return fail(Status::kInvalidArgument,
                    "total_q: query tiles of all heads, and heads of all sequences, must not exceed 2^30");
    }
    return Status::kOk;
}

// The map in which one batch ends at every row (attention/launcher.h).
Status encode_rows(const char* name, const FlashcoreOperand& operand, const Arguments& args, int64_t rows, int64_t heads,
                   int box_rows, CUtensorMap& map) {
    return encode({name,
                   operand.data,
                   {args.head_dim, kBatchRows, heads, rows + 1, kBatchRows + 1},
                   {operand.sequence_stride, operand.head_stride, operand.sequence_stride, kWrapStride - operand.sequence_stride},
                   {kAtomColumns, static_cast<uint32_t>(box_rows), 1, 1, 1},
                   kTensorRank},
                  DType::kE4m3, map);
}

// All sequences share one row of transposed values, so the batch has a stride of 0.
Status encode_maps(const Arguments& args, void* values, const Config& config, Params& params) {
    FLASHCORE_RETURN_IF_FAILED(encode_rows("q", args.q, args, args.total_q, args.heads, kWarpgroupRows, params.q));
    params.k = params.v = params.q;  // no key is loaded, and an empty tensor has no map
    if (args.total_k == 0) return Status::kOk;
    FLASHCORE_RETURN_IF_FAILED(encode_rows("k", args.k, args, args.total_k, args.kv_heads, config.tile_n, params.k));
    const int64_t pitch = value_pitch(args);
    const int64_t bytes = pitch * args.head_dim * args.kv_heads;
    return encode({"v",
                   values,
                   {pitch, args.head_dim, args.kv_heads, 1, 1},
                   {pitch, pitch * args.head_dim, bytes, bytes},
                   {kValueKeys, static_cast<uint32_t>(args.head_dim), 1, 1, 1},
                   kTensorRank},
                  DType::kE4m3, params.v);
}

// The address `bytes` before `data`. Nothing is read or written there.
template <class T>
T* address_before(T* data, int64_t bytes) {
    return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(data) - static_cast<uintptr_t>(bytes));
}

void fill_varlen(const Arguments& args, ForwardParams& params) {
    FlashcoreE4m3Arguments view{};  // of all rows as one sequence
    view.scale = args.scale;
    view.heads = args.heads;
    view.kv_heads = args.kv_heads;
    view.head_dim = args.head_dim;
    view.sq = args.total_q;
    view.out = args.out;
    view.lse = args.lse;
    view.workspace = args.workspace;
    fill(view, params);
    params.q_descale = {args.q_scale, args.q_scale_batch_stride, args.q_scale_head_stride};
    params.k_descale = {args.k_scale, args.k_scale_batch_stride, args.k_scale_head_stride};
    params.v_descale = {args.v_scale, args.v_scale_batch_stride, args.v_scale_head_stride};
    params.head_bits = bits_of_heads(args.heads);
    params.wrap = params.sq = params.sk = kBatchRows;
    params.out.data = address_before(args.out.data, kBatchRows * args.out.sequence_stride * kOutBytes);
    if (args.lse != nullptr) params.lse = address_before(args.lse, kBatchRows * static_cast<int64_t>(sizeof(float)));
    params.lse_batch_stride = 1;
}

// Lays out the batch and transposes the values.
Status prepare(const Arguments& args, const PackedBatch& packed, void* values) {
    const TransposeParams params{{args.v.data,
                                  0,
                                  args.v.sequence_stride,
                                  args.v.head_stride,
                                  static_cast<uint8_t*>(values),
                                  {},
                                  packed.k.total,
                                  static_cast<int>(value_blocks(args.total_k, args.batch)),
                                  static_cast<int>(args.kv_heads),
                                  DType::kE4m3},
                                 static_cast<int>(args.head_dim),
                                 packed};
    return launch_transpose(params, args.kv_heads, args.stream);
}

// The device is set, and the operands are checked.
Status launch(const Arguments& args, const ForwardVariant& variant, int64_t ctas) {
    auto* const bytes = static_cast<uint8_t*>(args.workspace);
    const Workspace parts = layout(args);
    auto* const infos = reinterpret_cast<SequenceInfo*>(bytes + parts.infos);
    auto* const sequences = reinterpret_cast<int*>(bytes + parts.sequences);
    ForwardParams params{};
    params.sequence_infos = infos;
    params.sequences = sequences;
    params.schedule.sequences = static_cast<int>(args.batch);
    FLASHCORE_RETURN_IF_FAILED(encode_maps(args, bytes + parts.values, variant.config, params));
    fill_varlen(args, params);
    const PackedBatch packed{{{args.cu_seqlens_q, args.seqused_q, static_cast<int>(args.total_q)},
                              {args.cu_seqlens_k, args.seqused_k, static_cast<int>(args.total_k)},
                              infos,
                              params.tile_counter,
                              static_cast<int>(args.batch),
                              params.heads,
                              planned_head_dim(variant.config),
                              variant.config.tile_m,
                              variant.config.causal,
                              0,  // no heads share tiles
                              0},
                             sequences};
    FLASHCORE_RETURN_IF_FAILED(prepare(args, packed, bytes + parts.values));
    return check(variant.launch(params, static_cast<int>(ctas), static_cast<cudaStream_t>(args.stream)), "launch");
}

Status forward(const Arguments& arguments) {
    Arguments args = arguments;
    FLASHCORE_RETURN_IF_FAILED(check_varlen(args));
    const ForwardVariant* variant = find(kVariants, args.causal != 0, args.head_dim);
    if (variant == nullptr) return fail(Status::kInvalidArgument, "head_dim: no kernel of this library has it");
    if (args.batch == 0 || args.heads == 0 || args.total_q == 0) return Status::kOk;
    int64_t tiles = 0;
    FLASHCORE_RETURN_IF_FAILED(count_tiles(args, variant->config, tiles));
    FLASHCORE_RETURN_IF_FAILED(check_operands(args));
    Device device;
    DeviceScope scope;
    FLASHCORE_RETURN_IF_FAILED(describe(args.device, device));
    FLASHCORE_RETURN_IF_FAILED(scope.enter(args.device));
    return launch(args, *variant, std::min(tiles, persistent_ctas(device.multiprocessors, args.max_ctas)));
}

Status measure(const Arguments& args, int64_t& bytes) {
    FLASHCORE_RETURN_IF_FAILED(check_sizes(args));
    bytes = layout(args).end;
    return Status::kOk;
}

}  // namespace
}  // namespace flashcore::attention::e4m3

extern "C" int flashcore_e4m3_varlen(const FlashcoreE4m3VarlenArguments* arguments) {
    return static_cast<int>(flashcore::call(flashcore::attention::e4m3::forward, arguments));
}

extern "C" int64_t flashcore_e4m3_varlen_workspace_bytes(const FlashcoreE4m3VarlenArguments* arguments) {
    int64_t bytes = 0;
    return flashcore::call(flashcore::attention::e4m3::measure, arguments, bytes) == flashcore::Status::kOk ? bytes : -1;
}
