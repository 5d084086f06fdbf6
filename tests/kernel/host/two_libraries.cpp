// A library of attention whose entry functions only count their launches. Two of them may share a process.
#include "flashcore/attention/abi.h"
#include "flashcore/attention/local_variants.h"
#include "flashcore/attention/params.h"
#include "flashcore/attention/variants.h"
#include "flashcore/attention/varlen.h"

namespace {
int launches = 0;

template <class Params>
cudaError_t count(const Params&, int, cudaStream_t) {
    ++launches;
    return cudaSuccess;
}

constexpr flashcore::attention::Config kConfig = [] {
    flashcore::attention::Config config{};
    config.head_dim = 64;
    config.tile_m = 192;
    config.tile_n = 128;
    return config;
}();

alignas(128) char memory[1 << 16];

CUresult encode(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    return CUDA_SUCCESS;
}
}  // namespace

#define COUNTED(name) extern "C" const flashcore::attention::AttentionVariant name = {kConfig, count};
FLASHCORE_ATTENTION_VARIANTS(COUNTED)
FLASHCORE_ATTENTION_LOCAL_VARIANTS(COUNTED)
extern "C" const flashcore::attention::PrepareVariant flashcore_attention_prepare_variant = {{1024}, count};

// Attends once, and returns how often this library has launched, or minus its status.
FLASHCORE_API int flashcore_test_attend() {
    runtime::driver_function = reinterpret_cast<void*>(encode);
    FlashcoreAttentionArguments args{};
    args.size = sizeof(args);
    args.scale = 1.0f;
    args.batch = args.heads = args.kv_heads = 1;
    args.sq = args.sk = 8;
    args.head_dim = 64;
    const FlashcoreOperand operand{memory, 512, 64, 64};
    args.q = args.k = args.v = args.out = operand;
    args.workspace = memory;
    const int status = flashcore_attention_forward(&args);
    return status != 0 ? -status : launches;
}
