// Calls the launchers of kernel/src with good and bad arguments, over a fake runtime (runtime/) that launches nothing. Output: a
// line per call with the operation, its result, and the error message of a refusal.
#include <cmath>
#include <cstdio>
#include <string_view>
#include <thread>

#include "flashcore/attention/abi.h"
#include "flashcore/attention/e4m3_abi.h"
#include "flashcore/attention/e4m3/block_params.h"
#include "flashcore/attention/e4m3/transpose_params.h"
#include "flashcore/attention/e4m3_block_variants.h"
#include "flashcore/attention/e4m3_variants.h"
#include "flashcore/attention/local_variants.h"
#include "flashcore/attention/variants.h"
#include "flashcore/attention/varlen.h"
#include "flashcore/combine/abi.h"
#include "flashcore/combine/config.h"
#include "flashcore/decode/abi.h"
#include "flashcore/decode/params.h"
#include "flashcore/decode/fp8_variants.h"
#include "flashcore/decode/key_scales_variants.h"
#include "flashcore/decode/gather_variants.h"
#include "flashcore/decode/local_variants.h"
#include "flashcore/decode/ragged_variants.h"
#include "flashcore/decode/variants.h"
#include "flashcore/stream/abi.h"
#include "flashcore/stream/config.h"

namespace {

template <class Params>
cudaError_t launch(const Params&, int, cudaStream_t) {
    ++runtime::launched;
    return cudaSuccess;
}

// All variants have head dimension 64 and fp16. Those with "paged" in their names read pages.
constexpr flashcore::attention::Config attention_config(std::string_view name) {
    flashcore::attention::Config config{};
    config.head_dim = 64;
    config.tile_m = 192;
    config.tile_n = 128;
    config.consumer_warpgroups = 3;
    config.paged_kv = name.find("paged") != name.npos;
    config.softcap = name.find("cap_") != name.npos;
    config.local = config.softcap || name.find("local") != name.npos;
    return config;
}
constexpr flashcore::attention::Config e4m3_config(std::string_view name) {
    auto config = attention_config(name);
    config.tile_m = 128;
    config.head_dim = name.find("d64") != name.npos ? 64 : name.find("d256") != name.npos ? 256 : 128;
    config.causal = name.find("causal") != name.npos;
    return config;
}
constexpr auto kDecode = [] {
    flashcore::decode::Config config{};
    config.head_dim = 64;
    config.tile_keys = 128;
    config.consumer_warps = 8;
    return config;
}();
constexpr auto kRaggedDecode = [] {
    auto config = kDecode;
    config.ragged = true;
    return config;
}();
constexpr flashcore::decode::Config local_decode_config(std::string_view name) {
    flashcore::decode::Config config = kDecode;
    config.local = true;
    config.ragged = name.find("ragged") != name.npos;
    return config;
}
constexpr auto kGatherDecode = [] {
    auto config = kDecode;
    config.ragged = config.local = config.gathered = true;
    config.producer_warps = 4;
    return config;
}();
constexpr auto kFp8Decode = [] {
    auto config = kDecode;
    config.fp8_cache = true;
    return config;
}();

}  // namespace

#define ATTENTION(name) extern "C" const flashcore::attention::AttentionVariant name = {attention_config(#name), launch};
FLASHCORE_ATTENTION_VARIANTS(ATTENTION)
#define E4M3(name) extern "C" const flashcore::attention::e4m3::ForwardVariant name = {e4m3_config(#name), launch};
FLASHCORE_E4M3_VARIANTS(E4M3)
#define BLOCK(name) extern "C" const flashcore::attention::e4m3::BlockVariant name = {e4m3_config(#name), launch};
FLASHCORE_E4M3_BLOCK_VARIANTS(BLOCK)
extern "C" const flashcore::attention::e4m3::TransposeVariant flashcore_e4m3_transpose_values_variant = {{128}, launch};
FLASHCORE_ATTENTION_LOCAL_VARIANTS(ATTENTION)
#define DECODE(name) extern "C" const flashcore::decode::DecodeVariant name = {kDecode, launch};
FLASHCORE_DECODE_VARIANTS(DECODE)
#define DECODE_RAGGED(name) extern "C" const flashcore::decode::RaggedDecodeVariant name = {kRaggedDecode, launch};
FLASHCORE_DECODE_RAGGED_VARIANTS(DECODE_RAGGED)
#define DECODE_FP8(name) extern "C" const flashcore::decode::Fp8DecodeVariant name = {kFp8Decode, launch};
FLASHCORE_DECODE_FP8_VARIANTS(DECODE_FP8)
#define DECODE_KEY_SCALES(name) extern "C" const flashcore::decode::KeyScaleDecodeVariant name = {kFp8Decode, launch};
FLASHCORE_DECODE_KEY_SCALES_VARIANTS(DECODE_KEY_SCALES)
#define DECODE_LOCAL(name) extern "C" const flashcore::decode::LocalDecodeVariant name = {local_decode_config(#name), launch};
FLASHCORE_DECODE_LOCAL_VARIANTS(DECODE_LOCAL)
#define DECODE_GATHER(name) extern "C" const flashcore::decode::GatherDecodeVariant name = {kGatherDecode, launch};
FLASHCORE_DECODE_GATHER_VARIANTS(DECODE_GATHER)
extern "C" const flashcore::attention::PrepareVariant flashcore_attention_prepare_variant = {{1024}, launch};
extern "C" const flashcore::combine::CombineVariant flashcore_combine_f32_variant = {{256, 5, 8}, launch};
extern "C" const flashcore::stream::StreamVariant flashcore_stream_axpy_f32_variant = {{1024, 1}, launch};
extern "C" const char* flashcore_error_string();

CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                                const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    return runtime::has_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

namespace {

alignas(128) char memory[1 << 22];  // stands for device memory. The launchers read only lengths and tables from it

template <class Result>
void print_result(const char* operation, Result result, bool refused) {
    std::printf("%s %lld%s%s\n", operation, static_cast<long long>(result), refused ? " " : "",
                refused ? flashcore_error_string() : "");
}

template <class Arguments, class Change>
void check_call(const char* operation, int (*function)(const Arguments*), Arguments arguments, Change change) {
    change(arguments);
    std::thread([&] {
        runtime::has_context = false;
        const int status = function(&arguments);
        print_result(operation, status, status != 0);
    }).join();
}

template <class Arguments, class Change>
void check_size(const char* operation, int64_t (*function)(const Arguments*), Arguments arguments, Change change) {
    change(arguments);
    const int64_t bytes = function(&arguments);
    print_result(operation, bytes, bytes < 0);
}

// Valid arguments of any attention: two sequences, four query heads, two KV heads.
template <class Arguments>
Arguments attention() {
    Arguments args{};
    args.size = sizeof(args);
    args.scale = 1.0f;
    args.batch = 2;
    args.heads = 4;
    args.kv_heads = 2;
    args.head_dim = 64;
    args.q = args.out = {memory, 1 << 15, 256, 64};
    args.k = args.v = {memory, 1 << 14, 128, 64};
    args.workspace = memory;
    return args;
}

FlashcoreAttentionArguments forward() {
    auto args = attention<FlashcoreAttentionArguments>();
    args.sq = args.sk = 128;
    return args;
}

FlashcoreVarlenArguments varlen() {
    auto args = attention<FlashcoreVarlenArguments>();
    args.total_q = args.total_k = 256;
    args.cu_seqlens_q = args.cu_seqlens_k = reinterpret_cast<int32_t*>(memory);
    args.workspace_bytes = sizeof(memory);
    return args;
}

// Eight pages of 16 keys, four for each sequence.
FlashcoreVarlenArguments paged() {
    auto args = varlen();
    args.k = args.v = {memory, 16 * 128, 128, 64};
    args.page_size = 16;
    args.pages = 8;
    args.table_width = args.table_stride = 4;
    args.page_table = reinterpret_cast<int32_t*>(memory);
    args.cu_seqlens_k = nullptr;
    return args;
}

FlashcoreDecodeArguments decode() {
    auto args = attention<FlashcoreDecodeArguments>();
    args.sq = 1;
    args.capacity = 128;
    args.workspace_bytes = sizeof(memory);
    return args;
}

// Packed queries of at most 16 in each sequence, over eight pages of 32 keys.
FlashcoreDecodeArguments ragged() {
    auto args = decode();
    args.sq = 16;
    args.total_q = 20;
    args.cu_seqlens_q = args.page_table = reinterpret_cast<int32_t*>(memory);
    args.k = args.v = {memory, 32 * 128, 128, 64};
    args.page_size = 32;
    args.pages = 8;
    args.table_width = args.table_stride = 4;
    return args;
}

// The same over pages of 8 keys.
FlashcoreDecodeArguments gather() {
    auto args = ragged();
    args.page_size = 8;
    return args;
}

FlashcoreE4m3Arguments e4m3() {
    auto args = attention<FlashcoreE4m3Arguments>();
    args.head_dim = 128;
    args.sq = args.sk = 130;
    args.q = args.out = {memory, 1 << 17, 512, 128};
    args.k = args.v = {memory, 1 << 16, 256, 128};
    args.workspace_bytes = 128 + 2 * 2 * 128 * 256;
    return args;
}

// Two sequences of up to 130 rows. Values take 4 blocks of each of 2 heads and 128 columns.
FlashcoreE4m3VarlenArguments e4m3_varlen() {
    auto args = attention<FlashcoreE4m3VarlenArguments>();
    args.head_dim = 128;
    args.total_q = args.total_k = 260;
    args.q = args.out = {memory, 0, 512, 128};
    args.k = args.v = {memory, 0, 256, 128};
    args.cu_seqlens_q = args.cu_seqlens_k = reinterpret_cast<int32_t*>(memory);
    args.workspace_bytes = 256 + 2 * 128 * 4 * 128;
    return args;
}

FlashcoreE4m3TransposeArguments transposition() {
    return {sizeof(FlashcoreE4m3TransposeArguments), 0, 2, 0, 2, 2, 130, 128, {memory, 1 << 16, 256, 128}, nullptr, 0, 0, memory, nullptr};
}

FlashcoreStreamArguments stream() {
    auto* const data = reinterpret_cast<float*>(memory);
    return {sizeof(FlashcoreStreamArguments), 0, 0, 1.0f, 1000, data, data, data, nullptr};
}

FlashcoreCombineArguments combine() {
    const FlashcoreOperand rows{memory, 64, 64, 64};
    auto* const lse = reinterpret_cast<float*>(memory);
    return {sizeof(FlashcoreCombineArguments), 0, 0, 2, 4, 2, 3, 5, 64, rows, 64, rows, 1, rows, lse, nullptr};
}

template <class Change>
void check_attentions(Change change) {
    check_call("attention", flashcore_attention_forward, forward(), change);
    check_call("varlen", flashcore_attention_varlen, varlen(), change);
    check_call("decode", flashcore_decode, decode(), change);
}

void check_e4m3_varlen() {
    const auto check = [](auto change) { check_call("packed", flashcore_e4m3_varlen, e4m3_varlen(), change); };
    check([](auto&) {});
    check([](auto& args) { args.causal = 1, args.seqused_q = args.seqused_k = args.cu_seqlens_q; });
    check([](auto& args) { args.total_k = 0, args.k.data = args.v.data = nullptr; });
    check([](auto& args) { args.batch = 0; });
    check([](auto& args) { args.total_q = 1, args.q.sequence_stride = 3; });
    check([](auto& args) { --args.size; });
    check([](auto& args) { args.head_dim = 96; });
    check([](auto& args) { args.kv_heads = 3; });
    check([](auto& args) { args.total_k = -1; });
    check([](auto& args) { args.batch = 1 << 23; });
    check([](auto& args) { args.workspace_bytes -= 1; });
    check([](auto& args) { args.workspace = memory + 64; });
    check([](auto& args) { args.cu_seqlens_k = nullptr; });
    check([](auto& args) { args.q.data = nullptr; });
    check([](auto& args) { args.v.head_stride = 120; });
    check([](auto& args) { args.k.sequence_stride = int64_t{1} << 33; });
    check([](auto& args) { args.out.sequence_stride = 4; });
    print_result("packed", flashcore_e4m3_varlen_workspace_bytes(nullptr), true);
    check_size("packed", flashcore_e4m3_varlen_workspace_bytes, e4m3_varlen(), [](auto& args) { args.head_dim = 72; });
    check_size("packed", flashcore_e4m3_varlen_workspace_bytes, e4m3_varlen(), [](auto& args) { args.workspace = nullptr; });
}

template <class Change>
void check_all(Change change) {
    check_attentions(change);
    check_call("stream", flashcore_stream_axpy, stream(), change);
}

}  // namespace

int main() {
    runtime::driver_function = reinterpret_cast<void*>(cuTensorMapEncodeTiled);
    check_all([](auto&) {});
    std::printf("launched %d\n", runtime::launched);

    print_result("combine", flashcore_combine(nullptr), true);
    check_call("combine", flashcore_combine, combine(), [](auto&) {});
    check_call("combine", flashcore_combine, combine(), [](auto& args) { args.heads = 0, args.out.data = nullptr; });
    check_call("combine", flashcore_combine, combine(), [](auto& args) { ++args.partial_split_stride, args.head_dim = 59; });
    check_call("combine", flashcore_combine, combine(), [](auto& args) { --args.size; });
    check_call("combine", flashcore_combine, combine(), [](auto& args) { args.splits = 257; });
    check_call("combine", flashcore_combine, combine(), [](auto& args) { args.out_dtype = 3; });
    check_call("combine", flashcore_combine, combine(), [](auto& args) { args.head_dim = 0; });
    check_call("combine", flashcore_combine, combine(), [](auto& args) { args.lse_partial.data = nullptr; });
    check_call("combine", flashcore_combine, combine(), [](auto& args) { args.out.data = memory + 2; });
    check_call("combine", flashcore_combine, combine(), [](auto& args) { args.batch = args.sequence = 1 << 16; });
    std::printf("launched %d\n", runtime::launched);

    print_result("attention", flashcore_attention_forward(nullptr), true);
    print_result("varlen", flashcore_attention_varlen(nullptr), true);
    print_result("decode", flashcore_decode(nullptr), true);
    print_result("stream", flashcore_stream_axpy(nullptr), true);
    check_all([](auto& args) { --args.size; });
    check_all([](auto& args) { args.max_ctas = -1; });

    check_attentions([](auto& args) { args.dtype = 3; });
    check_attentions([](auto& args) { args.batch = -1; });
    check_attentions([](auto& args) { args.heads = (int64_t{1} << 30) + 1; });
    check_attentions([](auto& args) { args.kv_heads = 0; });
    check_attentions([](auto& args) { args.kv_heads = 3; });
    check_attentions([](auto& args) { args.scale = INFINITY; });
    check_attentions([](auto& args) { args.q.data = nullptr; });
    check_attentions([](auto& args) { args.out.data = memory + 8; });
    check_attentions([](auto& args) { args.k.head_stride = 65; });

    check_call("attention", flashcore_attention_forward, forward(), [](auto& args) { args.workspace = memory + 4; });
    check_call("varlen", flashcore_attention_varlen, varlen(), [](auto& args) { args.workspace = memory + 16; });
    check_call("decode", flashcore_decode, decode(), [](auto& args) { args.workspace = memory + 8; });
    check_call("varlen", flashcore_attention_varlen, varlen(), [](auto& args) { args.workspace = nullptr; });
    check_call("decode", flashcore_decode, decode(), [](auto& args) { args.workspace = nullptr; });
    check_call("varlen", flashcore_attention_varlen, varlen(), [](auto& args) { args.workspace_bytes = 127; });
    check_call("varlen", flashcore_attention_varlen, varlen(), [](auto& args) { args.cu_seqlens_k = nullptr; });
    check_call("decode", flashcore_decode, decode(), [](auto& args) { args.sq = 17; });
    check_call("decode", flashcore_decode, decode(), [](auto& args) { args.dtype = 2; });
    check_call("decode", flashcore_decode, decode(), [](auto& args) { args.cache_dtype = 2, args.new_dtype = 3; });
    check_call("decode", flashcore_decode, decode(), [](auto& args) { args.page_size = 16, args.table_width = args.pages = 8; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto&) {});
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.table_width = 0, args.page_table = nullptr; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.kv_heads = 1, args.k.head_stride = 3; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.k.batch_stride = int64_t{1} << 38; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.page_size = -16; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.pages = 0; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.table_width = int64_t{1} << 27; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.page_table = nullptr; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.head_dim = 56; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.k.batch_stride = 4097; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.v.head_stride = 60; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.v.sequence_stride = int64_t{1} << 33; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.v.head_stride = int64_t{1} << 31; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.k.data = nullptr; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.min_queries = 17; });
    check_call("paged", flashcore_attention_varlen, paged(), [](auto& args) { args.min_queries = -1; });
    check_call("varlen", flashcore_attention_varlen, varlen(), [](auto& args) { args.min_queries = 1; });
    const auto check_short = [](auto change) {  // sequences of 64 queries, whose packed keys are read like a page
        auto args = varlen();
        args.total_q = 128;
        args.max_ctas = 7;  // fewer than tiles
        check_call("short", flashcore_attention_varlen, args, change);
    };
    check_short([](auto&) {});
    check_short([](auto& args) { args.total_k = 0; });
    check_short([](auto& args) { args.total_k = 1, args.k.sequence_stride = 3; });
    check_short([](auto& args) { args.k.batch_stride = args.v.batch_stride = 3; });
    check_short([](auto& args) { args.k.head_stride = int64_t{1} << 32; });
    check_short([](auto& args) { args.k.head_stride = 60; });
    check_short([](auto& args) { args.k.data = nullptr; });
    check_call("ragged", flashcore_decode, ragged(), [](auto&) {});
    check_call("ragged", flashcore_decode, ragged(), [](auto& args) { args.page_size = 1024; });
    check_call("ragged", flashcore_decode, ragged(), [](auto& args) { args.page_size = 48; });
    check_call("ragged", flashcore_decode, ragged(), [](auto& args) { args.page_size = 8; });
    check_call("ragged", flashcore_decode, ragged(), [](auto& args) { args.page_size = 8, args.local.enabled = 1; });
    for (const int page : {1, 7, 32, 48, 1024}) {
        check_call("gather", flashcore_decode, gather(), [&](auto& args) { args.page_size = page; });
    }
    check_call("gather", flashcore_decode, gather(), [](auto& args) { args.local.enabled = 1; });
    check_call("gather", flashcore_decode, gather(), [](auto& args) { args.table_width = 0, args.page_table = nullptr; });
    check_call("gather", flashcore_decode, gather(), [](auto& args) { args.page_size = -1; });
    check_call("gather", flashcore_decode, gather(), [](auto& args) { args.total_q = 0; });
    check_call("gather", flashcore_decode, gather(), [](auto& args) { args.cache_dtype = 2; });
    check_call("gather", flashcore_decode, gather(), [](auto& args) { args.k.batch_stride = 4; });
    check_call("gather", flashcore_decode, gather(), [](auto& args) { args.v.head_stride = 60; });
    check_call("gather", flashcore_decode, gather(), [](auto& args) { args.k.batch_stride = int64_t{1} << 39; });
    check_call("gather", flashcore_decode, gather(), [](auto& args) { args.v.data = memory + 8; });
    check_call("gather", flashcore_decode, gather(), [](auto& args) { args.pages = 0; });
    for (const int head_dim : {40, 36, 96, 264}) {
        check_call("gather", flashcore_decode, gather(), [&](auto& args) { args.head_dim = head_dim; });
    }
    check_call("decode", flashcore_decode, decode(), [](auto& args) { args.head_dim = 40, args.cache_dtype = 2; });
    check_call("ragged", flashcore_decode, ragged(), [](auto& args) { args.cu_seqlens_q = nullptr; });
    check_call("ragged", flashcore_decode, ragged(), [](auto& args) { args.total_q = -1; });
    check_call("ragged", flashcore_decode, ragged(), [](auto& args) { args.new_keys = 1; });
    check_call("ragged", flashcore_decode, ragged(), [](auto& args) { args.cache_dtype = 2; });
    check_call("ragged", flashcore_decode, ragged(), [](auto& args) { args.splits = 2; });
    check_call("ragged", flashcore_decode, ragged(), [](auto& args) { args.heads = 32, args.kv_heads = 2; });
    check_call("ragged", flashcore_decode, ragged(), [](auto& args) { args.heads = 32, args.kv_heads = 2, args.sq = 8; });
    check_call("stream", flashcore_stream_axpy, stream(), [](auto& args) { args.count = -1; });
    check_call("stream", flashcore_stream_axpy, stream(), [](auto& args) { args.y = nullptr; });
    check_call("stream", flashcore_stream_axpy, stream(), [](auto& args) { ++args.out; });
    std::printf("launched %d\n", runtime::launched);

    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto&) {});
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.causal = args.transposed = 1; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.transposed = 1, args.workspace_bytes = 128; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.sk = 0, args.k.data = args.v.data = nullptr; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { --args.size; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.head_dim = 96; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.head_dim = 64; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.transposed = 2; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.block_scales = 7; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.block_scales = 8; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.kv_heads = 3; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.sk = -1; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.workspace_bytes -= 1; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.workspace = memory + 64; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.v.head_stride = 120; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.k.sequence_stride = 8; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.out.head_stride = 4; });
    check_call("e4m3", flashcore_e4m3_forward, e4m3(), [](auto& args) { args.q.data = nullptr; });
    check_call("transpose", flashcore_e4m3_transpose, transposition(), [](auto&) {});
    check_call("transpose", flashcore_e4m3_transpose, transposition(), [](auto& args) { args.dtype = 3; });
    check_call("transpose", flashcore_e4m3_transpose, transposition(), [](auto& args) { args.head_dim = 192; });
    check_call("transpose", flashcore_e4m3_transpose, transposition(), [](auto& args) { args.values = nullptr; });
    std::printf("launched %d\n", runtime::launched);
    check_e4m3_varlen();
    std::printf("launched %d\n", runtime::launched);

    print_result("varlen", flashcore_attention_varlen_workspace_bytes(nullptr), true);
    print_result("decode", flashcore_decode_workspace_bytes(nullptr), true);
    const auto varlen_bytes = flashcore_attention_varlen_workspace_bytes;
    const auto decode_bytes = flashcore_decode_workspace_bytes;
    check_size("varlen", varlen_bytes, varlen(), [](auto& args) { --args.size; });
    check_size("decode", decode_bytes, decode(), [](auto& args) { --args.size; });
    check_size("varlen", varlen_bytes, varlen(), [](auto& args) { args.batch = -1; });
    check_size("decode", decode_bytes, decode(), [](auto& args) { args.batch = -1; });
    check_size("varlen", varlen_bytes, varlen(), [](auto& args) { args.workspace = nullptr, args.scale = INFINITY; });
    check_size("decode", decode_bytes, decode(), [](auto& args) { args.workspace = nullptr; });
}
