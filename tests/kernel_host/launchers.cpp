// What the launchers of kernel/src refuse, over a runtime (runtime/ beside this file) that launches nothing.
// Out: a line for each question: the operation, what it returns, and what its sentence is if it refuses.
#include <cmath>
#include <cstdio>

#include "flashcore/attention/abi.h"
#include "flashcore/attention/ragged.h"
#include "flashcore/attention/variants.h"
#include "flashcore/decode/abi.h"
#include "flashcore/decode/params.h"
#include "flashcore/decode/variants.h"
#include "flashcore/stream/abi.h"
#include "flashcore/stream/config.h"

namespace {

template <class Params>
cudaError_t launch(const Params&, int, cudaStream_t) {
    ++runtime::launched;
    return cudaSuccess;
}

// Of head dimension 64 in fp16, all of them.
constexpr auto kAttention = [] {
    flashcore::attention::Config config{};
    config.head_dim = 64;
    config.tile_m = 192;
    config.tile_n = 128;
    return config;
}();
constexpr auto kDecode = [] {
    flashcore::decode::Config config{};
    config.head_dim = 64;
    config.tile_keys = 128;
    config.consumer_warps = 8;
    return config;
}();

}  // namespace

#define ATTENTION(name) extern "C" const flashcore::attention::AttentionVariant name = {kAttention, launch};
FLASHCORE_ATTENTION_VARIANTS(ATTENTION)
#define DECODE(name) extern "C" const flashcore::decode::DecodeVariant name = {kDecode, launch};
FLASHCORE_DECODE_VARIANTS(DECODE)
extern "C" const flashcore::attention::PrepareVariant flashcore_attention_varlen_prepare_variant = {{1024}, launch};
extern "C" const flashcore::stream::StreamVariant flashcore_stream_axpy_f32_variant = {{1024, 1}, launch};
extern "C" const char* flashcore_error_string();

CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                                const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    return runtime::has_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

namespace {

alignas(32) char memory[1 << 20];  // of the device; no more than lengths and tables are ever read of it

template <class Result>
void tell(const char* operation, Result result, bool refused) {
    std::printf("%s %lld%s%s\n", operation, static_cast<long long>(result), refused ? " " : "",
                refused ? flashcore_error_string() : "");
}

template <class Arguments, class Change>
void ask(const char* operation, int (*function)(const Arguments*), Arguments arguments, Change change) {
    change(arguments);
    runtime::has_context = false;  // as in a new thread
    const int status = function(&arguments);
    tell(operation, status, status != 0);
}

template <class Arguments, class Change>
void measure(const char* operation, int64_t (*function)(const Arguments*), Arguments arguments, Change change) {
    change(arguments);
    const int64_t bytes = function(&arguments);
    tell(operation, bytes, bytes < 0);
}

// Arguments that an attention takes: two sequences, four heads and two of keys.
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

FlashcoreDecodeArguments decode() {
    auto args = attention<FlashcoreDecodeArguments>();
    args.sq = 1;
    args.capacity = 128;
    args.workspace_bytes = sizeof(memory);
    return args;
}

FlashcoreStreamArguments stream() {
    auto* const data = reinterpret_cast<float*>(memory);
    return {sizeof(FlashcoreStreamArguments), 0, 0, 1.0f, 1000, data, data, data, nullptr};
}

template <class Change>
void ask_attentions(Change change) {
    ask("attention", flashcore_attention_forward, forward(), change);
    ask("varlen", flashcore_attention_varlen, varlen(), change);
    ask("decode", flashcore_decode, decode(), change);
}

template <class Change>
void ask_all(Change change) {
    ask_attentions(change);
    ask("stream", flashcore_stream_axpy, stream(), change);
}

}  // namespace

int main() {
    runtime::driver = reinterpret_cast<void*>(cuTensorMapEncodeTiled);
    ask_all([](auto&) {});
    std::printf("launched %d\n", runtime::launched);

    tell("attention", flashcore_attention_forward(nullptr), true);
    tell("varlen", flashcore_attention_varlen(nullptr), true);
    tell("decode", flashcore_decode(nullptr), true);
    tell("stream", flashcore_stream_axpy(nullptr), true);
    ask_all([](auto& args) { --args.size; });
    ask_all([](auto& args) { args.max_ctas = -1; });

    ask_attentions([](auto& args) { args.dtype = 2; });
    ask_attentions([](auto& args) { args.batch = -1; });
    ask_attentions([](auto& args) { args.heads = (int64_t{1} << 30) + 1; });
    ask_attentions([](auto& args) { args.kv_heads = 0; });
    ask_attentions([](auto& args) { args.kv_heads = 3; });
    ask_attentions([](auto& args) { args.scale = INFINITY; });
    ask_attentions([](auto& args) { args.q.data = nullptr; });
    ask_attentions([](auto& args) { args.out.data = memory + 8; });
    ask_attentions([](auto& args) { args.k.head_stride = 65; });

    ask("attention", flashcore_attention_forward, forward(), [](auto& args) { args.workspace = memory + 4; });
    ask("varlen", flashcore_attention_varlen, varlen(), [](auto& args) { args.workspace = memory + 16; });
    ask("decode", flashcore_decode, decode(), [](auto& args) { args.workspace = memory + 8; });
    ask("varlen", flashcore_attention_varlen, varlen(), [](auto& args) { args.workspace = nullptr; });
    ask("decode", flashcore_decode, decode(), [](auto& args) { args.workspace = nullptr; });
    ask("varlen", flashcore_attention_varlen, varlen(), [](auto& args) { args.cu_seqlens_k = nullptr; });
    ask("decode", flashcore_decode, decode(), [](auto& args) { args.sq = 17; });
    ask("decode", flashcore_decode, decode(), [](auto& args) { args.page_size = 16, args.table_width = args.pages = 8; });
    ask("stream", flashcore_stream_axpy, stream(), [](auto& args) { args.count = -1; });
    ask("stream", flashcore_stream_axpy, stream(), [](auto& args) { args.y = nullptr; });
    ask("stream", flashcore_stream_axpy, stream(), [](auto& args) { ++args.out; });
    std::printf("launched %d\n", runtime::launched);

    tell("varlen", flashcore_attention_varlen_workspace_bytes(nullptr), true);
    tell("decode", flashcore_decode_workspace_bytes(nullptr), true);
    const auto varlen_bytes = flashcore_attention_varlen_workspace_bytes;
    const auto decode_bytes = flashcore_decode_workspace_bytes;
    measure("varlen", varlen_bytes, varlen(), [](auto& args) { --args.size; });
    measure("decode", decode_bytes, decode(), [](auto& args) { --args.size; });
    measure("varlen", varlen_bytes, varlen(), [](auto& args) { args.batch = -1; });
    measure("decode", decode_bytes, decode(), [](auto& args) { args.batch = -1; });
    measure("varlen", varlen_bytes, varlen(), [](auto& args) { args.workspace = nullptr, args.scale = INFINITY; });
    measure("decode", decode_bytes, decode(), [](auto& args) { args.workspace = nullptr; });
}
