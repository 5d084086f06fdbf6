// Stand-ins for the kernels on the host: they count launches, and copy the first value to the first output.
#include <cstdint>

#include "flashcore/attention/abi.h"
#include "flashcore/core/status.h"
#include "flashcore/decode/abi.h"

namespace {

int launches = 0;
bool refuses = false;

template <class Arguments>
int launch(const Arguments& args) {
    ++launches;
    if (refuses) return static_cast<int>(flashcore::fail(flashcore::Status::kInvalidArgument, "k: refused by the stand-in"));
    *static_cast<uint16_t*>(args.out.data) = *static_cast<const uint16_t*>(args.v.data);
    if (args.lse != nullptr) *args.lse = args.scale;
    *static_cast<char*>(args.workspace) += 1;
    return 0;
}

}  // namespace

extern "C" int standin_launches() { return launches; }
extern "C" void standin_refuse(int value) { refuses = value != 0; }

extern "C" int flashcore_attention_forward(const FlashcoreAttentionArguments* args) { return launch(*args); }
extern "C" int flashcore_attention_varlen(const FlashcoreVarlenArguments* args) { return launch(*args); }
extern "C" int64_t flashcore_attention_varlen_workspace_bytes(const FlashcoreVarlenArguments*) { return 64; }

extern "C" int flashcore_decode(const FlashcoreDecodeArguments* args) {
    if (!refuses && args->new_keys > 0) *static_cast<uint16_t*>(args->k.data) = *static_cast<const uint16_t*>(args->k_new.data);
    return launch(*args);
}
extern "C" int64_t flashcore_decode_workspace_bytes(const FlashcoreDecodeArguments*) { return 64; }

