// Calls of PyTorch's operators without Python, on PyTorch's stable ABI.
//
// Python defines the operators, checks arguments and prepares launches (flashcore/ops.py). The first call with some shapes, strides
// and options goes there through a fallback operator, which leaves a recording of its launch. Later calls with other addresses replay
// the recording, in the workspace of Python's launches. A replay that is refused goes to the fallback as well, so messages come from
// one place.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "torch_abi.h"
#include "torch_call.h"
#include "torch_errors.h"
#include "torch_workspaces.h"

// One launch, as Python passes it. Words are 8 bytes.
struct FlashcoreRecording {
    int (*launch)(const void* arguments);
    const uint64_t* words;  // the argument structure without addresses
    int64_t word_count;
    const int64_t* addresses;  // pairs: word, argument of the operator
    int64_t address_count;
    int64_t out_word;  // of a new output, or -1
    int64_t lse_word;  // of a new log-sum-exp, or -1
    int64_t out_rank;
    int64_t out_sizes[4];
    int64_t lse_rank;
    int64_t lse_sizes[4];
    int64_t out_is_bfloat16;
    int64_t workspace_word;
    int64_t workspace_bytes;
    int64_t stream_word;
    int64_t device;
};

namespace flashcore::torch_ops {
namespace {

constexpr size_t kMaxWords = 192;
constexpr size_t kMaxOperators = 8;
constexpr size_t kLatest = 4;            // launches of an operator that a thread finds without a lock
constexpr size_t kMaxRecordings = 4096;  // of an operator. Then all are dropped, so that old shapes do not stay
constexpr int kFunctional = 0;           // returns a new output and log-sum-exp
constexpr int kWrites = 1;               // returns nothing
constexpr int kFlash3 = 2;               // returns the output, which may be an argument, the log-sum-exp, and two undefined tensors

struct Recording {
    std::atomic<int> owners{1};
    FlashcoreRecording plan;
    std::string key;
    std::vector<uint64_t> words;
    std::vector<std::pair<int64_t, int64_t>> addresses;
    NewTensor out, lse;
};

struct Operator {
    std::string name, fallback;
    std::vector<Parameter> parameters;
    int returns = kFunctional;
    int32_t device_type = 0;
    bool has_streams = true, has_gradient = false;
    int64_t out = -1;  // the argument that receives the output, or -1
    std::mutex mutex;
    std::unordered_map<std::string, Shared<Recording>> recordings;
};

// What a thread found for its latest calls of an operator. It needs no lock until something changes.
struct Found {
    uint64_t version = 0;
    Shared<Recording> recording;
    void* stream = nullptr;
    uint64_t workspace = 0;  // for the stream, or 0
};

std::array<Operator, kMaxOperators> operators;
size_t operator_count = 0;
std::atomic<uint64_t> forgotten{0};  // times that all launches were forgotten
thread_local Shared<Recording> pending;
thread_local std::array<std::array<Found, kLatest>, kMaxOperators> latest;
thread_local size_t next_latest = 0;

// Returns what repeats the call, or null.
Found* find(Operator& op, const Call& call) {
    const uint64_t now = version.load(std::memory_order_acquire);
    auto& candidates = latest[static_cast<size_t>(&op - operators.data())];
    for (Found& found : candidates) {
        if (found.version == now && call.has_key(found.recording->key)) return &found;
    }
    const std::lock_guard<std::mutex> lock(op.mutex);
    const auto found = op.recordings.find(call.copy_key());
    if (found == op.recordings.end()) return nullptr;
    return &(candidates[next_latest++ % kLatest] = {now, found->second, nullptr, 0});
}

uint64_t find_workspace_of(Found& found, void* stream) {
    if (found.workspace == 0 || found.stream != stream) {
        const FlashcoreRecording& plan = found.recording->plan;
        found.workspace = find_workspace({reinterpret_cast<const void*>(plan.launch), plan.device, stream}, plan.workspace_bytes);
        found.stream = stream;
    }
    return found.workspace;
}

// Returns false if the launch was refused or needs Python.
bool replay(const Operator& op, Found& found, const Call& call, StableIValue* stack) {
    const Shared<Recording> recording = found.recording;
    const FlashcoreRecording& plan = recording->plan;
    void* const stream = op.has_streams ? current_stream(plan.device) : nullptr;
    if (is_capturing(stream)) return false;
    const uint64_t workspace = find_workspace_of(found, stream);
    if (workspace == 0) return false;
    std::array<uint64_t, kMaxWords> words;
    std::memcpy(words.data(), recording->words.data(), recording->words.size() * sizeof(uint64_t));
    for (const auto& [word, argument] : recording->addresses) words[word] = address_of(call.tensor(argument));
    Tensor out, lse;
    try {
        const auto place = [&](int64_t word, const NewTensor& kind, Tensor& tensor) {
            if (word < 0) return;
            tensor = kind.make(op.device_type, plan.device);
            words[word] = address_of(tensor.get());
        };
        place(plan.out_word, recording->out, out);
        place(plan.lse_word, recording->lse, lse);
    } catch (const std::exception&) {
        return false;  // without memory. The dispatcher still has the arguments, and Python says what is wrong
    }
    words[plan.workspace_word] = workspace;
    words[plan.stream_word] = reinterpret_cast<uint64_t>(stream);
    if (plan.launch(words.data()) != 0) return false;
    if (out.get() == nullptr && op.returns == kFlash3) {
        AtenTensorHandle same = nullptr;
        check(torch_abi.new_tensor_handle(call.tensor(op.out), &same), "new_tensor_handle");
        out = Tensor(same);
    }
    call.free();
    if (op.returns == kWrites) return true;
    stack[0] = out.release();
    stack[1] = lse.release();
    for (int i = 2; op.returns == kFlash3 && i < 4; ++i) {
        AtenTensorHandle undefined = nullptr;
        check(torch_abi.new_uninitialized_tensor(&undefined), "undefined");
        stack[i] = reinterpret_cast<StableIValue>(undefined);
    }
    return true;
}

// `before`: of `forgotten`, when the call began. A launch of a library that was replaced since then is not kept.
void keep(Operator& op, const Call& call, uint64_t before) {
    if (!pending) return;
    pending->key = call.copy_key();
    const std::lock_guard<std::mutex> lock(op.mutex);
    if (forgotten.load() != before) return;
    if (op.recordings.size() >= kMaxRecordings) op.recordings.clear();
    op.recordings[pending->key] = pending;
    ++version;
}

void call(Operator& op, StableIValue* stack, uint64_t inputs, uint64_t outputs) {
    if (inputs != op.parameters.size()) throw std::runtime_error("flashcore: " + op.name + " has another schema");
    const Call call(op.parameters, stack);
    // Elsewhere Python refuses tensors that require a gradient.
    const bool may_repeat = call.can_repeat() && (op.has_gradient || !torch_abi.grad_mode_is_enabled());
    Found* found = may_repeat ? find(op, call) : nullptr;
    if (found != nullptr && replay(op, *found, call, stack)) return;
    pending = {};
    failure.clear();
    const uint64_t before = forgotten.load();
    check(torch_abi.call_dispatcher(op.fallback.c_str(), "", stack), op.name.c_str());
    if (failure.is_set) {
        for (uint64_t i = 0; i < outputs; ++i) torch_abi.delete_tensor_object(reinterpret_cast<AtenTensorHandle>(stack[i]));
        failure.raise();
    }
    if (may_repeat) keep(op, call, before);
    pending = {};
}

template <size_t I>
void boxed(StableIValue* stack, uint64_t inputs, uint64_t outputs) {
    call(operators[I], stack, inputs, outputs);
}

using Boxed = void (*)(StableIValue*, uint64_t, uint64_t);
constexpr std::array<Boxed, kMaxOperators> kBoxed = {boxed<0>, boxed<1>, boxed<2>, boxed<3>,
                                                     boxed<4>, boxed<5>, boxed<6>, boxed<7>};

// The Autograd kernel of flashcore::fwd. In the mode without gradients a replayed call stays out of Python. The stable ABI does not
// say whether a tensor requires a gradient, so in the other mode Python looks.
void relay(StableIValue* stack, uint64_t, uint64_t) {
    failure.clear();
    const char* next = torch_abi.grad_mode_is_enabled() ? "flashcore::_fwd_differentiable" : "flashcore::_fwd_below";
    const AOTITorchError error = torch_abi.call_dispatcher(next, "", stack);
    if (error != AOTI_TORCH_SUCCESS) failure.raise();
    check(error, next);
}

}  // namespace
}  // namespace flashcore::torch_ops

// Finds PyTorch's functions in a library, by its handle of dlopen. Returns null, or the name of a missing function.
extern "C" const char* flashcore_ops_bind(void* library) { return flashcore::torch_ops::torch_abi.bind(library); }

// Registers the kernel of an operator that Python has defined. The key is CUDA, or in tests CPU. `out` is the argument that receives
// the output, or -1. Returns 0, or 1 if PyTorch refuses.
extern "C" int flashcore_ops_register(const char* space, const char* name, const char* key, const char* signature, int returns,
                                      int64_t out) {
    using namespace flashcore::torch_ops;
    if (operator_count == kMaxOperators || std::strlen(signature) > kMaxArguments) return 1;
    Operator& op = operators[operator_count];
    op.name = std::string(space) + "::" + name;
    op.fallback = std::string(space) + "::_" + name + "_in_python";
    op.has_gradient = op.name == "flashcore::fwd";
    op.parameters = parse(signature);
    op.returns = returns;
    op.out = out;
    op.has_streams = std::strcmp(key, "CUDA") == 0;
    op.device_type = op.has_streams ? torch_abi.device_type_cuda() : torch_abi.device_type_cpu();
    TorchLibraryHandle library = nullptr;  // kept: deleting it removes the kernel
    if (torch_abi.library_init_impl(space, key, __FILE__, __LINE__, &library) != AOTI_TORCH_SUCCESS) return 1;
    if (torch_abi.library_impl(library, name, kBoxed[operator_count]) != AOTI_TORCH_SUCCESS) return 1;
    ++operator_count;
    return 0;
}

// Registers the Autograd kernel of flashcore::fwd, and its kernel also for flashcore::_fwd_below. Returns 0, or 1 if PyTorch refuses.
extern "C" int flashcore_ops_relay() {
    using namespace flashcore::torch_ops;
    size_t i = 0;
    while (i < operator_count && operators[i].name != "flashcore::fwd") ++i;
    if (i == operator_count) return 1;
    const auto implement = [](const char* key, const char* name, Boxed kernel) {
        TorchLibraryHandle library = nullptr;  // kept, as above
        return torch_abi.library_init_impl("flashcore", key, __FILE__, __LINE__, &library) == AOTI_TORCH_SUCCESS &&
               torch_abi.library_impl(library, name, kernel) == AOTI_TORCH_SUCCESS;
    };
    return implement(operators[i].has_streams ? "CUDA" : "CPU", "_fwd_below", kBoxed[i]) && implement("Autograd", "fwd", relay) ? 0 : 1;
}

// Keeps a launch of the fallback that runs in this thread. Returns 0, or 1 if it cannot be replayed.
extern "C" int flashcore_ops_keep(const FlashcoreRecording* plan) {
    using namespace flashcore::torch_ops;
    if (plan->word_count > static_cast<int64_t>(kMaxWords)) return 1;
    Shared<Recording> recording(new Recording);
    recording->plan = *plan;
    recording->words.assign(plan->words, plan->words + plan->word_count);
    for (int64_t i = 0; i < plan->address_count; ++i) {
        recording->addresses.emplace_back(plan->addresses[2 * i], plan->addresses[2 * i + 1]);
    }
    const int32_t type = plan->out_is_bfloat16 != 0 ? torch_abi.dtype_bfloat16() : torch_abi.dtype_float16();
    recording->out = NewTensor(plan->out_sizes, plan->out_rank, type);
    recording->lse = NewTensor(plan->lse_sizes, plan->lse_rank, torch_abi.dtype_float32());
    recording->plan.words = nullptr;
    recording->plan.addresses = nullptr;
    pending = recording;
    return 0;
}

// Lends a workspace, zero at first, to the replayed launches of an entry function on a stream. The launches there run in order.
extern "C" void flashcore_ops_lend(const void* launch, int64_t device, void* stream, void* address, int64_t bytes) {
    using namespace flashcore::torch_ops;
    keep_workspace({launch, device, stream}, {reinterpret_cast<uint64_t>(address), bytes});
}

// Lets the operator whose fallback runs in this thread raise this message.
extern "C" void flashcore_ops_fail(const char* message) {
    flashcore::torch_ops::failure.message = message;
    flashcore::torch_ops::failure.is_set = true;
}

// The same with an exception of Python, of which the operator gets a reference.
extern "C" void flashcore_ops_raise(const char* message, void* exception) {
    using namespace flashcore::torch_ops;
    flashcore_ops_fail(message);
    if (python().is_complete()) failure.exception = Shared<PythonException>(new PythonException(exception));
}

// Forgets all launches, because another library was loaded.
extern "C" void flashcore_ops_clear() {
    using namespace flashcore::torch_ops;
    ++forgotten;
    for (size_t i = 0; i < operator_count; ++i) {
        const std::lock_guard<std::mutex> lock(operators[i].mutex);
        operators[i].recordings.clear();
    }
    ++version;
}
