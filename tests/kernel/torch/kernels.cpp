// Stand-ins for the kernels on the host: they count launches, and copy the first value to the first output.
#include <cmath>
#include <cstdint>

#include "flashcore/attention/abi.h"
#include "flashcore/attention/e4m3_abi.h"
#include "flashcore/combine/abi.h"
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

int64_t place(const FlashcoreOperand& operand, int64_t batch, int64_t row, int64_t head) {
    return batch * operand.batch_stride + row * operand.sequence_stride + head * operand.head_stride;
}

// Merges one row, in float32 only.
void merge_row(const FlashcoreCombineArguments& args, int64_t batch, int64_t row, int64_t head) {
    const float* sums = static_cast<const float*>(args.lse_partial.data) + place(args.lse_partial, batch, row, head);
    const float* partial = static_cast<const float*>(args.partial.data) + place(args.partial, batch, row, head);
    float* out = static_cast<float*>(args.out.data) + place(args.out, batch, row, head);
    double total = 0.0;
    for (int64_t split = 0; split < args.splits; ++split) total += std::exp(sums[split * args.lse_partial_split_stride]);
    for (int64_t column = 0; column < args.head_dim; ++column) {
        double value = 0.0;
        for (int64_t split = 0; split < args.splits; ++split) {
            const double weight = std::exp(sums[split * args.lse_partial_split_stride]) / total;
            value += weight * partial[split * args.partial_split_stride + column];
        }
        out[column] = static_cast<float>(value);
    }
    args.lse[(batch * args.heads + head) * args.sequence + row] = static_cast<float>(std::log(total));
}

}  // namespace

extern "C" int flashcore_e4m3_forward(const FlashcoreE4m3Arguments* args) { return launch(*args); }
extern "C" int flashcore_e4m3_varlen(const FlashcoreE4m3VarlenArguments* args) { return launch(*args); }
extern "C" int64_t flashcore_e4m3_varlen_workspace_bytes(const FlashcoreE4m3VarlenArguments*) { return 256; }

extern "C" int flashcore_combine(const FlashcoreCombineArguments* args) {
    ++launches;
    for (int64_t batch = 0; batch < args->batch; ++batch) {
        for (int64_t row = 0; row < args->sequence; ++row) {
            for (int64_t head = 0; head < args->heads; ++head) merge_row(*args, batch, row, head);
        }
    }
    return 0;
}

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

