// Host launcher of decode: validate, plan, encode the tensor maps, launch.
#include "flashcore/decode/abi.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "flashcore/core/arguments.h"
#include "flashcore/core/device.h"
#include "flashcore/core/local_arguments.h"
#include "flashcore/core/score_scale.h"
#include "flashcore/core/status.h"
#include "flashcore/core/tensor_map.h"
#include "flashcore/decode/fp8_variants.h"
#include "flashcore/decode/local_variants.h"
#include "flashcore/decode/params.h"
#include "flashcore/decode/plan.h"
#include "flashcore/decode/ragged_variants.h"
#include "flashcore/decode/variants.h"

#define FLASHCORE_DECLARE(name) extern "C" const flashcore::decode::DecodeVariant name;
FLASHCORE_DECODE_VARIANTS(FLASHCORE_DECLARE)
#undef FLASHCORE_DECLARE
#define FLASHCORE_DECLARE(name) extern "C" const flashcore::decode::Fp8DecodeVariant name;
FLASHCORE_DECODE_FP8_VARIANTS(FLASHCORE_DECLARE)
#undef FLASHCORE_DECLARE
#define FLASHCORE_DECLARE(name) extern "C" const flashcore::decode::RaggedDecodeVariant name;
FLASHCORE_DECODE_RAGGED_VARIANTS(FLASHCORE_DECLARE)
#undef FLASHCORE_DECLARE
#define FLASHCORE_DECLARE(name) extern "C" const flashcore::decode::LocalDecodeVariant name;
FLASHCORE_DECODE_LOCAL_VARIANTS(FLASHCORE_DECLARE)
#undef FLASHCORE_DECLARE

namespace flashcore::decode {
namespace {

#define FLASHCORE_ADDRESS(name) &name,
constexpr const DecodeVariant* kVariants[] = {FLASHCORE_DECODE_VARIANTS(FLASHCORE_ADDRESS) nullptr};
constexpr const Fp8DecodeVariant* kFp8Variants[] = {FLASHCORE_DECODE_FP8_VARIANTS(FLASHCORE_ADDRESS) nullptr};
constexpr const RaggedDecodeVariant* kRaggedVariants[] = {FLASHCORE_DECODE_RAGGED_VARIANTS(FLASHCORE_ADDRESS) nullptr};
constexpr const LocalDecodeVariant* kLocalVariants[] = {FLASHCORE_DECODE_LOCAL_VARIANTS(FLASHCORE_ADDRESS) nullptr};
#undef FLASHCORE_ADDRESS
// The last one is null, so that a build of a single entry function has no empty list.

using Arguments = FlashcoreDecodeArguments;

constexpr int64_t kMaxQueries = 16;
constexpr size_t kWorkspaceAlignment = 16;
constexpr int32_t kE4m3 = static_cast<int32_t>(DType::kE4m3);
constexpr int64_t kSwizzleRowBytes = 128;
constexpr int kNoPages = 31;  // page_shift of a contiguous cache

bool has_fp8_cache(const Arguments& args) { return args.cache_dtype == kE4m3; }
bool is_local(const Arguments& args) { return args.local.enabled != 0; }
bool is_packed(const Arguments& args) { return args.total_q > 0; }
DType cache_type(const Arguments& args) { return static_cast<DType>(has_fp8_cache(args) ? kE4m3 : args.dtype); }
DType new_type(const Arguments& args) { return static_cast<DType>(has_fp8_cache(args) ? args.new_dtype : args.dtype); }

int64_t capacity(const Arguments& args) { return args.page_size > 0 ? args.table_width * args.page_size : args.capacity; }

Status check_packed(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_extent("total_q", args.total_q, 0));
    const bool plain = !has_fp8_cache(args) && args.new_keys == 0 && args.splits == 0 && args.deterministic == 0;
    if (!is_packed(args) || plain) return Status::kOk;
    return fail(Status::kInvalidArgument, "total_q: packed queries need a cache of 16 bits, no new keys and no chosen splits");
}

bool is_power_of_two(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

Status check_cache(const Arguments& args) {
    constexpr int kPageSizes[] = {0, 16, 64, 128, 256};
    bool supported = false;
    for (const int size : kPageSizes) supported = supported || args.page_size == size;
    if (is_packed(args) && args.page_size >= kMmaKeys && is_power_of_two(args.page_size)) supported = true;
    if (!supported) {
        return fail(Status::kInvalidArgument, "page_size: must be 0 (contiguous), %s, but is %d",
                    is_packed(args) ? "or a power of two from 16 on" : "16, 64, 128 or 256", args.page_size);
    }
    if (args.page_size > 0) {
        FLASHCORE_RETURN_IF_FAILED(check_extent("table_width", args.table_width, 0, kExtentLimit / args.page_size));
        FLASHCORE_RETURN_IF_FAILED(check_extent("pages", args.pages, capacity(args) > 0 ? 1 : 0));
    } else {
        FLASHCORE_RETURN_IF_FAILED(check_extent("capacity", args.capacity, 0));
    }
    if (args.new_keys < 0 || args.new_keys > capacity(args)) {
        return fail(Status::kInvalidArgument, "new_keys: must be from 0 to %lld, the most keys of a sequence, but is %lld",
                    static_cast<long long>(capacity(args)), static_cast<long long>(args.new_keys));
    }
    return Status::kOk;
}

Status check_types(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_local(args.local, args.sinks));
    if (is_local(args) && has_fp8_cache(args)) {
        return fail(Status::kInvalidArgument, "window, softcap, sinks: need a cache of 16 bits, but it is of E4M3");
    }
    if (args.dtype == kE4m3 && !has_fp8_cache(args)) {
        return fail(Status::kInvalidArgument, "dtype: E4M3 queries need caches of E4M3");
    }
    if (has_fp8_cache(args) && (args.new_dtype < 0 || args.new_dtype > kE4m3)) {
        return fail(Status::kInvalidArgument, "new_dtype: must be 0 (fp16), 1 (bf16) or 2 (E4M3), but is %d", args.new_dtype);
    }
    return Status::kOk;
}

Status check_numbers(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_types(args));
    Arguments numbers = args;
    if (args.dtype == kE4m3) numbers.dtype = static_cast<int32_t>(DType::kBf16);  // as the output
    FLASHCORE_RETURN_IF_FAILED(check_attention(numbers));
    FLASHCORE_RETURN_IF_FAILED(check_extent("sq", args.sq, 1, kMaxQueries));
    FLASHCORE_RETURN_IF_FAILED(check_packed(args));
    FLASHCORE_RETURN_IF_FAILED(check_cache(args));
    return check_count("splits", args.splits);
}

// The entry function of a launch: one of them is set.
struct Choice {
    const DecodeVariant* plain = nullptr;
    const Fp8DecodeVariant* fp8 = nullptr;
    const RaggedDecodeVariant* ragged = nullptr;
    const LocalDecodeVariant* local = nullptr;

    const Config& config() const { return local != nullptr ? local->config : fp8 != nullptr ? fp8->config : ragged != nullptr ? ragged->config : plain->config; }
};

bool serves(const Config& config, const Arguments& args) {
    return config.head_dim == args.head_dim && static_cast<int>(config.dtype) == args.dtype;
}

Status find_variant(const Arguments& args, Choice& choice) {
    if (is_local(args)) {
        for (const LocalDecodeVariant* candidate : kLocalVariants) {
            const bool is_possible = candidate != nullptr && serves(candidate->config, args);
            if (is_possible && candidate->config.ragged == is_packed(args)) choice.local = candidate;
        }
    } else if (has_fp8_cache(args)) {
        for (const Fp8DecodeVariant* candidate : kFp8Variants) {
            if (candidate != nullptr && serves(candidate->config, args)) choice.fp8 = candidate;
        }
    } else if (is_packed(args)) {
        for (const RaggedDecodeVariant* candidate : kRaggedVariants) {
            if (candidate != nullptr && serves(candidate->config, args)) choice.ragged = candidate;
        }
    } else {
        for (const DecodeVariant* candidate : kVariants) {
            if (candidate != nullptr && serves(candidate->config, args)) choice.plain = candidate;
        }
    }
    if (choice.local != nullptr || choice.fp8 != nullptr || choice.ragged != nullptr || choice.plain != nullptr) return Status::kOk;
    return fail(Status::kInvalidArgument, "head_dim: must be 64, 128 or 256, but is %lld", static_cast<long long>(args.head_dim));
}

// Plans a launch from the arguments' numbers, without their pointers.
Status plan_launch(const Arguments& args, Choice& choice, Device& device, Plan& launch_plan) {
    FLASHCORE_RETURN_IF_FAILED(check_numbers(args));
    FLASHCORE_RETURN_IF_FAILED(find_variant(args, choice));
    FLASHCORE_RETURN_IF_FAILED(describe(args.device, device));
    const Problem problem{static_cast<DType>(args.dtype),
                          static_cast<int>(args.head_dim),
                          args.batch,
                          args.heads,
                          args.kv_heads,
                          args.sq,
                          capacity(args),
                          args.causal != 0,
                          args.deterministic != 0,
                          args.splits};
    launch_plan = plan(choice.config(), problem, device.multiprocessors, args.max_ctas);
    if (is_packed(args) && launch_plan.row_work_tiles > 1) {
        return fail(Status::kInvalidArgument, "sq: packed queries times heads per KV head must be at most %d, but are %d",
                    launch_plan.rows.per_work_tile, launch_plan.rows.count);
    }
    if (launch_plan.tiles > kExtentLimit) {
        return fail(Status::kInvalidArgument, "batch: batch * heads * KV tiles must not exceed 2^30, but is %lld",
                    static_cast<long long>(launch_plan.tiles));
    }
    if (launch_plan.counters > kCounters) {
        return fail(Status::kInvalidArgument,
                    "batch: batch * kv_heads must not exceed %lld if splits are forced or deterministic, but is %lld",
                    static_cast<long long>(kCounters * launch_plan.rows.heads / launch_plan.row_work_tiles),
                    static_cast<long long>(args.batch * args.kv_heads));
    }
    return Status::kOk;
}

Status check_pointers(const Arguments& args, const Plan& launch_plan) {
    if (args.page_size > 0 && capacity(args) > 0) FLASHCORE_RETURN_IF_FAILED(check_pointer("page_table", args.page_table));
    FLASHCORE_RETURN_IF_FAILED(check_pointer("workspace", args.workspace, kWorkspaceAlignment));
    if (args.workspace_bytes < launch_plan.workspace_bytes) {
        return fail(Status::kInvalidArgument, "workspace_bytes: must be at least %lld, but is %lld",
                    static_cast<long long>(launch_plan.workspace_bytes), static_cast<long long>(args.workspace_bytes));
    }
    const auto rows = [&](const char* name, const FlashcoreOperand& operand, int64_t length, int64_t heads, int bytes) {
        return check_tensor({name,
                             operand.data,
                             {args.head_dim, length, heads, is_packed(args) ? 1 : args.batch},
                             {operand.sequence_stride * bytes, operand.head_stride * bytes, operand.batch_stride * bytes},
                             {}});
    };
    if (is_packed(args)) FLASHCORE_RETURN_IF_FAILED(check_pointer("cu_seqlens_q", args.cu_seqlens_q));
    const int64_t queries = is_packed(args) ? args.total_q : args.sq;
    FLASHCORE_RETURN_IF_FAILED(rows("q", args.q, queries, args.heads, bytes_of(static_cast<DType>(args.dtype))));
    FLASHCORE_RETURN_IF_FAILED(rows("out", args.out, queries, args.heads, kBytesPerElement));
    if (args.new_keys == 0) return Status::kOk;
    const int bytes = bytes_of(new_type(args));
    FLASHCORE_RETURN_IF_FAILED(rows("k_new", args.k_new, args.new_keys, args.kv_heads, bytes));
    return rows("v_new", args.v_new, args.new_keys, args.kv_heads, bytes);
}

// Reads lengths and page table back and checks them. Only the device has them otherwise.
Status check_tables(const Arguments& args) {
    const auto stream = static_cast<cudaStream_t>(args.stream);
    std::vector<int32_t> lengths(static_cast<size_t>(args.batch), static_cast<int32_t>(capacity(args) - args.new_keys));
    if (args.lengths != nullptr) {
        FLASHCORE_RETURN_IF_FAILED(
            check(cudaMemcpyAsync(lengths.data(), args.lengths, lengths.size() * sizeof(int32_t), cudaMemcpyDeviceToHost, stream),
                  "lengths"));
    }
    std::vector<int32_t> table(args.page_size > 0 ? static_cast<size_t>(args.batch * args.table_width) : 0);
    if (!table.empty()) {
        const auto width = static_cast<size_t>(args.table_width) * sizeof(int32_t);
        FLASHCORE_RETURN_IF_FAILED(check(
            cudaMemcpy2DAsync(table.data(), width, args.page_table, static_cast<size_t>(args.table_stride) * sizeof(int32_t),
                              width, static_cast<size_t>(args.batch), cudaMemcpyDeviceToHost, stream),
            "page_table"));
    }
    FLASHCORE_RETURN_IF_FAILED(check(cudaStreamSynchronize(stream), "check"));
    for (int64_t sequence = 0; sequence < args.batch; ++sequence) {
        const int64_t length = lengths[static_cast<size_t>(sequence)];
        if (length < 0 || length + args.new_keys > capacity(args)) {
            return fail(Status::kInvalidArgument,
                        "lengths: sequence %lld has %lld keys and %lld new ones, but the cache holds at most %lld",
                        static_cast<long long>(sequence), static_cast<long long>(length), static_cast<long long>(args.new_keys),
                        static_cast<long long>(capacity(args)));
        }
        for (int64_t slot = 0; !table.empty() && slot * args.page_size < length + args.new_keys; ++slot) {
            const int32_t page = table[static_cast<size_t>(sequence * args.table_width + slot)];
            if (page >= 0 && page < args.pages) continue;
            return fail(Status::kInvalidArgument, "page_table: entry %lld of sequence %lld is %d, but the pool has %lld pages",
                        static_cast<long long>(slot), static_cast<long long>(sequence), page, static_cast<long long>(args.pages));
        }
    }
    return Status::kOk;
}

// Columns of swizzle atoms and heads are separate dimensions, so that one box holds all heads of a work tile.
Status encode_maps(const Arguments& args, const Config& config, Params& params) {
    if (capacity(args) == 0) return Status::kOk;  // no key is loaded, and an empty tensor has no map
    const int64_t bytes = cache_bytes(config);
    const int64_t columns = std::min<int64_t>(kSwizzleRowBytes / bytes, args.head_dim);
    const auto map = [&](const char* name, const FlashcoreOperand& operand, CUtensorMap& out) {
        const int64_t blocks = args.head_dim / columns;
        const TensorShape shape{
            name,
            operand.data,
            {columns, args.page_size > 0 ? args.page_size : capacity(args), blocks, args.kv_heads, params.cache.pages},
            {operand.sequence_stride * bytes, columns * bytes, operand.head_stride * bytes, operand.batch_stride * bytes},
            {static_cast<uint32_t>(columns), 1u << params.box_shift, static_cast<uint32_t>(blocks),
             static_cast<uint32_t>(params.rows.heads), 1},
            5,
            {"sequence", "column", "head", args.page_size > 0 ? "page" : "batch"},
            CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            columns * bytes < kSwizzleRowBytes ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B};
        return encode(shape, cache_type(args), out);
    };
    FLASHCORE_RETURN_IF_FAILED(map("k", args.k, params.k));
    return map("v", args.v, params.v);
}

void fill(const Arguments& args, const Plan& launch_plan, Params& params) {
    params.q = args.q;
    params.k_cache = args.k;
    params.v_cache = args.v;
    params.k_new = args.k_new;
    params.v_new = args.v_new;
    params.out = args.out;
    params.lse = args.lse;
    params.counters = static_cast<unsigned*>(args.workspace);
    params.partials = reinterpret_cast<float*>(static_cast<char*>(args.workspace) + kCounterBytes);
    const bool paged = args.page_size > 0;
    const int keys = static_cast<int>(capacity(args));
    params.cache = {args.lengths,
                    paged ? args.page_table : nullptr,
                    args.table_stride,
                    keys,
                    paged ? log2_of(args.page_size) : kNoPages,
                    static_cast<int>(paged ? args.pages : args.batch),
                    static_cast<int>(args.new_keys)};
    params.rows = launch_plan.rows;
    params.split_policy = launch_plan.split_policy;
    params.kv_heads = static_cast<int>(args.kv_heads);
    params.row_work_tiles = launch_plan.row_work_tiles;
    const int tile_shift = launch_plan.split_policy.tile_shift;
    params.box_shift = paged ? std::min(log2_of(args.page_size), tile_shift) : tile_shift;
    const ScoreScale scale = score_scale(scale_after_cap(args.local, args.scale));
    params.scale_log2 = scale.log2;
    params.scale = scale.magnitude;
    params.score_sign = scale.sign;
}

void fill_scales(const Arguments& args, Fp8Params& params) {
    params.q_scale = {args.dtype == kE4m3 ? args.q_scale : nullptr, args.q_scale_batch_stride, args.q_scale_head_stride};
    params.k_scale = {args.k_scale, args.k_scale_batch_stride, args.k_scale_head_stride};
    params.v_scale = {args.v_scale, args.v_scale_batch_stride, args.v_scale_head_stride};
    params.new_dtype = new_type(args);
}

void fill_queries(const Arguments& args, RaggedParams& params) {
    params.q.batch_stride = params.out.batch_stride = 0;
    params.queries = {args.cu_seqlens_q, args.seqused_q, static_cast<int>(args.total_q)};
    params.max_queries = static_cast<int>(args.sq);
}

template <class LaunchParams>
Status fill_all(const Arguments& args, const Config& config, const Plan& launch_plan, LaunchParams& params) {
    fill(args, launch_plan, params);
    return encode_maps(args, config, params);
}

Status launch(const Arguments& args, const Choice& choice, const Plan& launch_plan) {
    const auto stream = static_cast<cudaStream_t>(args.stream);
    if (choice.local != nullptr) {
        LocalParams params{};
        FLASHCORE_RETURN_IF_FAILED(fill_all(args, choice.config(), launch_plan, params));
        if (is_packed(args)) fill_queries(args, params);
        params.local = make_local(args, args.scale);
        return check(choice.local->launch(params, launch_plan.ctas, stream), "launch");
    }
    if (choice.ragged != nullptr) {
        RaggedParams params{};
        FLASHCORE_RETURN_IF_FAILED(fill_all(args, choice.config(), launch_plan, params));
        fill_queries(args, params);
        return check(choice.ragged->launch(params, launch_plan.ctas, stream), "launch");
    }
    Fp8Params params{};
    FLASHCORE_RETURN_IF_FAILED(fill_all(args, choice.config(), launch_plan, params));
    if (choice.plain != nullptr) return check(choice.plain->launch(params, launch_plan.ctas, stream), "launch");
    fill_scales(args, params);
    return check(choice.fp8->launch(params, launch_plan.ctas, stream), "launch");
}

Status decode(const Arguments& args) {
    Choice choice;
    Device device;
    Plan launch_plan;
    FLASHCORE_RETURN_IF_FAILED(plan_launch(args, choice, device, launch_plan));
    if (args.batch == 0 || args.heads == 0) return Status::kOk;
    FLASHCORE_RETURN_IF_FAILED(check_pointers(args, launch_plan));
    DeviceScope scope;
    FLASHCORE_RETURN_IF_FAILED(scope.enter(args.device));
    if (args.check != 0) FLASHCORE_RETURN_IF_FAILED(check_tables(args));
    return launch(args, choice, launch_plan);
}

}  // namespace
}  // namespace flashcore::decode

extern "C" int flashcore_decode(const FlashcoreDecodeArguments* arguments) {
    return static_cast<int>(flashcore::call(flashcore::decode::decode, arguments));
}

extern "C" int64_t flashcore_decode_workspace_bytes(const FlashcoreDecodeArguments* arguments) {
    flashcore::decode::Choice choice;
    flashcore::Device device;
    flashcore::decode::Plan launch_plan;
    const auto status = flashcore::call(flashcore::decode::plan_launch, arguments, choice, device, launch_plan);
    return status == flashcore::Status::kOk ? launch_plan.workspace_bytes : -1;
}
