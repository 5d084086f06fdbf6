// Host launcher of decode: validate, plan, encode the tensor maps, launch.
#include "flashcore/decode/abi.h"

#include <algorithm>
#include <cstdint>

#include "flashcore/core/device.h"
#include "flashcore/core/kept_maps.h"
#include "flashcore/core/local_arguments.h"
#include "flashcore/core/score_scale.h"
#include "flashcore/core/status.h"
#include "flashcore/core/tensor_map.h"
#include "flashcore/decode/check.h"
#include "flashcore/decode/fp8_arguments.h"
#include "flashcore/decode/fp8_variants.h"
#include "flashcore/decode/gather_variants.h"
#include "flashcore/decode/key_scales_variants.h"
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
#define FLASHCORE_DECLARE(name) extern "C" const flashcore::decode::KeyScaleDecodeVariant name;
FLASHCORE_DECODE_KEY_SCALES_VARIANTS(FLASHCORE_DECLARE)
#undef FLASHCORE_DECLARE
#define FLASHCORE_DECLARE(name) extern "C" const flashcore::decode::RaggedDecodeVariant name;
FLASHCORE_DECODE_RAGGED_VARIANTS(FLASHCORE_DECLARE)
#undef FLASHCORE_DECLARE
#define FLASHCORE_DECLARE(name) extern "C" const flashcore::decode::LocalDecodeVariant name;
FLASHCORE_DECODE_LOCAL_VARIANTS(FLASHCORE_DECLARE)
#undef FLASHCORE_DECLARE
#define FLASHCORE_DECLARE(name) extern "C" const flashcore::decode::GatherDecodeVariant name;
FLASHCORE_DECODE_GATHER_VARIANTS(FLASHCORE_DECLARE)
#undef FLASHCORE_DECLARE

namespace flashcore::decode {
namespace {

#define FLASHCORE_ADDRESS(name) &name,
constexpr const DecodeVariant* kVariants[] = {FLASHCORE_DECODE_VARIANTS(FLASHCORE_ADDRESS) nullptr};
constexpr const Fp8DecodeVariant* kFp8Variants[] = {FLASHCORE_DECODE_FP8_VARIANTS(FLASHCORE_ADDRESS) nullptr};
constexpr const KeyScaleDecodeVariant* kKeyScaleVariants[] = {FLASHCORE_DECODE_KEY_SCALES_VARIANTS(FLASHCORE_ADDRESS) nullptr};
constexpr const RaggedDecodeVariant* kRaggedVariants[] = {FLASHCORE_DECODE_RAGGED_VARIANTS(FLASHCORE_ADDRESS) nullptr};
constexpr const LocalDecodeVariant* kLocalVariants[] = {FLASHCORE_DECODE_LOCAL_VARIANTS(FLASHCORE_ADDRESS) nullptr};
constexpr const GatherDecodeVariant* kGatherVariants[] = {FLASHCORE_DECODE_GATHER_VARIANTS(FLASHCORE_ADDRESS) nullptr};
#undef FLASHCORE_ADDRESS
// The last one is null, so that a build of a single entry function has no empty list.

constexpr int64_t kSwizzleRowBytes = 128;
constexpr int kNoPages = 31;  // page_shift of a contiguous cache

// The entry function of a launch: one of them is set.
struct Choice {
    const DecodeVariant* plain = nullptr;
    const Fp8DecodeVariant* fp8 = nullptr;
    const KeyScaleDecodeVariant* key_scales = nullptr;
    const RaggedDecodeVariant* ragged = nullptr;
    const LocalDecodeVariant* local = nullptr;
    const GatherDecodeVariant* gather = nullptr;

    bool is_made() const { return gather != nullptr || local != nullptr || fp8 != nullptr || key_scales != nullptr || ragged != nullptr || plain != nullptr; }
    const Config& config() const {
        if (gather != nullptr) return gather->config;
        if (local != nullptr) return local->config;
        if (key_scales != nullptr) return key_scales->config;
        return fp8 != nullptr ? fp8->config : ragged != nullptr ? ragged->config : plain->config;
    }
};

bool serves(const Config& config, const Arguments& args) {
    return config.head_dim == kernel_head_dim(args.head_dim) && static_cast<int>(config.dtype) == args.dtype;
}

// Whether a warpgroup serves packed queries: their rows fill several row tiles. Other numbers, and calls that may hold any number of
// queries, stay with the variants for few rows.
bool fills_warpgroup(const Arguments& args) {
    const int64_t rows = args.kv_heads > 0 ? args.sq * (args.heads / args.kv_heads) : 0;
    return is_packed(args) && args.head_dim <= kWarpgroupMaxHeadDim && args.sq < kMaxQueries && rows > kRowTileRows &&
           rows <= kWarpgroupRows;
}

// Whether the sums of fixed segments are folded. Chosen splits follow the length, and are deterministic too.
bool has_segments(const Arguments& args) { return args.deterministic != 0 && args.splits == 0; }

Status find_variant(const Arguments& args, Choice& choice) {
    if (is_gathered(args)) {  // with and without a window, a cap or sinks
        for (const GatherDecodeVariant* candidate : kGatherVariants) {
            if (candidate != nullptr && serves(candidate->config, args)) choice.gather = candidate;
        }
    } else if (is_local(args)) {
        for (const LocalDecodeVariant* candidate : kLocalVariants) {
            const bool is_possible = candidate != nullptr && serves(candidate->config, args);
            const bool takes_rows = is_possible && candidate->config.ragged == is_packed(args);
            if (takes_rows && candidate->config.warpgroup == fills_warpgroup(args)) choice.local = candidate;
        }
    } else if (has_fp8_cache(args) && has_key_scales(args)) {  // with queries of any type
        for (const KeyScaleDecodeVariant* candidate : kKeyScaleVariants) {
            const bool is_possible = candidate != nullptr && candidate->config.head_dim == kernel_head_dim(args.head_dim);
            if (is_possible) choice.key_scales = candidate;
        }
    } else if (has_fp8_cache(args)) {
        for (const Fp8DecodeVariant* candidate : kFp8Variants) {
            if (candidate != nullptr && serves(candidate->config, args)) choice.fp8 = candidate;
        }
    } else if (is_packed(args)) {
        for (const RaggedDecodeVariant* candidate : kRaggedVariants) {
            const bool is_possible = candidate != nullptr && serves(candidate->config, args);
            if (is_possible && candidate->config.warpgroup == fills_warpgroup(args)) choice.ragged = candidate;
        }
    } else {
        for (const DecodeVariant* candidate : kVariants) {
            const bool is_possible = candidate != nullptr && serves(candidate->config, args);
            if (is_possible && candidate->config.deterministic == has_segments(args)) choice.plain = candidate;
        }
    }
    if (choice.is_made()) return Status::kOk;
    return fail(Status::kInvalidArgument, "head_dim: no kernel of this build takes %lld", static_cast<long long>(args.head_dim));
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

// What a tensor map would check. 16 bytes are copied at a time.
Status check_caches(const Arguments& args) {
    if (capacity(args) == 0) return Status::kOk;
    const auto cache = [&](const char* name, const FlashcoreOperand& operand) {
        const int64_t bytes = bytes_of(cache_type(args));
        return check_tensor({name,
                             operand.data,
                             {args.head_dim, args.page_size, args.kv_heads, args.pages},
                             {operand.sequence_stride * bytes, operand.head_stride * bytes, operand.batch_stride * bytes},
                             {},
                             4,
                             {"sequence", "head", "page"}});
    };
    FLASHCORE_RETURN_IF_FAILED(cache("k", args.k));
    return cache("v", args.v);
}

// Columns of swizzle atoms and heads are separate dimensions: a box holds all heads of a work tile, with zeros beyond head_dim.
Status encode_maps(const Arguments& args, const Config& config, Params& params) {
    if (capacity(args) == 0) return Status::kOk;  // no key is loaded, and an empty tensor has no map
    const int64_t bytes = cache_bytes(config), columns = atom_elements(config);
    const int64_t keys = args.page_size > 0 ? args.page_size : capacity(args);
    const bool apart = config.warpgroup || ends_inside_column(atom_columns(config), atom_elements(config), params.head_dim);
    const auto map = [&](const char* name, const FlashcoreOperand& operand, CUtensorMap& out) {
        const int64_t blocks = apart ? 1 : (args.head_dim + columns - 1) / columns;
        const TensorShape shape{
            name,
            operand.data,
            {apart ? args.head_dim : std::min(columns, args.head_dim), keys, blocks, args.kv_heads, params.cache.pages},
            {operand.sequence_stride * bytes, columns * bytes, operand.head_stride * bytes, operand.batch_stride * bytes},
            {static_cast<uint32_t>(columns), 1u << params.box_shift, apart ? 1 : static_cast<uint32_t>(atom_columns(config)),
             static_cast<uint32_t>(params.rows.heads), 1},
            5,
            {"sequence", "column", "head", args.page_size > 0 ? "page" : "batch"},
            CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            columns * bytes < kSwizzleRowBytes ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B};
        return encode_kept(shape, cache_type(args), args.device, out);
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
    params.box_shift = paged && !is_gathered(args) ? std::min(log2_of(args.page_size), tile_shift) : tile_shift;
    const ScoreScale scale = score_scale(scale_after_cap(args.local, args.scale));
    params.scale_log2 = scale.log2;
    params.scale = scale.magnitude;
    params.score_sign = scale.sign;
    params.head_dim = static_cast<int>(args.head_dim);
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

Status launch_gather(const Arguments& args, const GatherDecodeVariant& variant, const Plan& launch_plan) {
    GatherParams params{};
    fill(args, launch_plan, params);
    FLASHCORE_RETURN_IF_FAILED(check_caches(args));
    fill_queries(args, params);
    Arguments limits = args;
    if (!is_local(args)) {
        limits.local = {0, -1, -1, 0, 0.0f, 0};
        limits.sinks = nullptr;
        limits.loaded_tiles = nullptr;
    }
    params.local = make_local(limits, args.scale);
    params.page_size = make_divisor(args.page_size);
    return check(variant.launch(params, launch_plan.ctas, static_cast<cudaStream_t>(args.stream)), "launch");
}

Status launch(const Arguments& args, const Choice& choice, const Plan& launch_plan) {
    if (choice.gather != nullptr) return launch_gather(args, *choice.gather, launch_plan);
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
    KeyScaleParams params{};
    FLASHCORE_RETURN_IF_FAILED(fill_all(args, choice.config(), launch_plan, params));
    if (choice.key_scales != nullptr) {
        fill_key_scales(args, params);
        return check(choice.key_scales->launch(params, launch_plan.ctas, stream), "launch");
    }
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
    FLASHCORE_RETURN_IF_FAILED(check_pointers(args, launch_plan.workspace_bytes));
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
