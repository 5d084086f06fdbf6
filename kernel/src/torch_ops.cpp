// Calls of PyTorch's operators without Python, on PyTorch's stable ABI.
//
// Python defines the operators, checks arguments and prepares launches (flashcore/ops.py). The first call with some shapes, strides
// and options goes there through a fallback operator, which leaves a recording of its launch. Later calls with other addresses replay
// the recording. A replay that is refused goes to the fallback as well, so messages come from one place.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

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

namespace std {
// Containers call it since GCC 11. Defined here, the library needs no newer C++ library.
void __throw_bad_array_new_length() { throw std::bad_alloc(); }
}  // namespace std

namespace flashcore::torch_ops {
namespace {

constexpr size_t kMaxWords = 192;
constexpr size_t kMaxOperators = 8;
constexpr size_t kMaxRecordings = 4096;  // of an operator. Then all are dropped, so that old shapes do not stay
constexpr int kFunctional = 0;           // returns a new output and log-sum-exp
constexpr int kWrites = 1;               // returns nothing
constexpr int kFlash3 = 2;               // returns the output, which may be an argument, the log-sum-exp, and two undefined tensors

// The functions of PyTorch's stable ABI. They are looked up in the PyTorch that Python has loaded, so this library links to none.
struct TorchAbi {
    decltype(&aoti_torch_call_dispatcher) call_dispatcher;
    decltype(&aoti_torch_delete_tensor_object) delete_tensor_object;
    decltype(&aoti_torch_device_type_cpu) device_type_cpu;
    decltype(&aoti_torch_device_type_cuda) device_type_cuda;
    decltype(&aoti_torch_dtype_bfloat16) dtype_bfloat16;
    decltype(&aoti_torch_dtype_float16) dtype_float16;
    decltype(&aoti_torch_dtype_float32) dtype_float32;
    decltype(&aoti_torch_dtype_uint8) dtype_uint8;
    decltype(&aoti_torch_empty_strided) empty_strided;
    decltype(&aoti_torch_get_data_ptr) get_data_ptr;
    decltype(&aoti_torch_get_device_index) get_device_index;
    decltype(&aoti_torch_get_device_type) get_device_type;
    decltype(&aoti_torch_get_dim) get_dim;
    decltype(&aoti_torch_get_dtype) get_dtype;
    decltype(&aoti_torch_get_sizes) get_sizes;
    decltype(&aoti_torch_get_strides) get_strides;
    decltype(&aoti_torch_library_impl) library_impl;
    decltype(&aoti_torch_library_init_impl) library_init_impl;
    decltype(&aoti_torch_new_tensor_handle) new_tensor_handle;
    decltype(&aoti_torch_new_uninitialized_tensor) new_uninitialized_tensor;
    decltype(&aoti_torch_zero_) zero_;
    AOTITorchError (*get_current_cuda_stream)(int32_t device, void** stream);  // only declared for builds with CUDA

    // Returns the first name that is missing, or null.
    const char* bind(void* library) {
        const char* missing = nullptr;
        const auto find = [&](const char* name, auto& function) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
            if (function == nullptr && missing == nullptr) missing = name;
        };
        find("aoti_torch_call_dispatcher", call_dispatcher);
        find("aoti_torch_delete_tensor_object", delete_tensor_object);
        find("aoti_torch_device_type_cpu", device_type_cpu);
        find("aoti_torch_device_type_cuda", device_type_cuda);
        find("aoti_torch_dtype_bfloat16", dtype_bfloat16);
        find("aoti_torch_dtype_float16", dtype_float16);
        find("aoti_torch_dtype_float32", dtype_float32);
        find("aoti_torch_dtype_uint8", dtype_uint8);
        find("aoti_torch_empty_strided", empty_strided);
        find("aoti_torch_get_data_ptr", get_data_ptr);
        find("aoti_torch_get_device_index", get_device_index);
        find("aoti_torch_get_device_type", get_device_type);
        find("aoti_torch_get_dim", get_dim);
        find("aoti_torch_get_dtype", get_dtype);
        find("aoti_torch_get_sizes", get_sizes);
        find("aoti_torch_get_strides", get_strides);
        find("aoti_torch_library_impl", library_impl);
        find("aoti_torch_library_init_impl", library_init_impl);
        find("aoti_torch_new_tensor_handle", new_tensor_handle);
        find("aoti_torch_new_uninitialized_tensor", new_uninitialized_tensor);
        find("aoti_torch_zero_", zero_);
        const char* const required = missing;
        find("aoti_torch_get_current_cuda_stream", get_current_cuda_stream);  // a build without CUDA only defines operators
        return required;
    }
};

TorchAbi torch_abi;

// Shares an object that counts its owners. std::shared_ptr needs a newer C library than manylinux_2_28 has.
template <class T>
class Shared {
public:
    Shared() = default;
    explicit Shared(T* object) : object_(object) {}
    Shared(const Shared& other) : object_(other.object_) {
        if (object_ != nullptr) object_->owners.fetch_add(1, std::memory_order_relaxed);
    }
    Shared& operator=(Shared other) {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Shared() {
        if (object_ != nullptr && object_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete object_;
    }
    T* operator->() const { return object_; }
    T& operator*() const { return *object_; }
    explicit operator bool() const { return object_ != nullptr; }

private:
    T* object_ = nullptr;
};

void check(AOTITorchError error, const char* what) {
    if (error != AOTI_TORCH_SUCCESS) throw std::runtime_error(std::string("flashcore: PyTorch failed in ") + what);
}

// Owns a tensor.
class Tensor {
public:
    Tensor() = default;
    explicit Tensor(AtenTensorHandle handle) : handle_(handle) {}
    Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Tensor& operator=(Tensor&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Tensor() {
        if (handle_ != nullptr) torch_abi.delete_tensor_object(handle_);
    }
    AtenTensorHandle get() const { return handle_; }
    StableIValue release() { return reinterpret_cast<StableIValue>(std::exchange(handle_, nullptr)); }

private:
    AtenTensorHandle handle_ = nullptr;
};

uint64_t address_of(AtenTensorHandle tensor) {
    void* data = nullptr;
    check(torch_abi.get_data_ptr(tensor, &data), "data_ptr");
    return reinterpret_cast<uint64_t>(data);
}

// A new contiguous tensor.
Tensor empty(const int64_t* sizes, int64_t rank, int32_t dtype, int32_t device_type, int64_t device) {
    std::array<int64_t, 4> strides{};
    int64_t stride = 1;
    for (int64_t i = rank; i-- > 0;) {
        strides[i] = stride;
        stride *= sizes[i] > 1 ? sizes[i] : 1;
    }
    AtenTensorHandle handle = nullptr;
    check(torch_abi.empty_strided(rank, sizes, strides.data(), dtype, device_type, static_cast<int32_t>(device),
                                   &handle),
          "empty");
    return Tensor(handle);
}

void* current_stream(int64_t device) {
    if (torch_abi.get_current_cuda_stream == nullptr) throw std::runtime_error("flashcore: PyTorch has no CUDA. Install one with CUDA");
    void* stream = nullptr;
    check(torch_abi.get_current_cuda_stream(static_cast<int32_t>(device), &stream), "current_stream");
    return stream;
}

// A capture needs a workspace of its own, which Python keeps. The default stream cannot be captured.
bool is_capturing(void* stream) {
    using Query = int (*)(void*, int*);
    static const Query query = [] {
        void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
        return driver == nullptr ? nullptr : reinterpret_cast<Query>(dlsym(driver, "cuStreamIsCapturing"));
    }();
    int status = 0;
    return stream != nullptr && (query == nullptr || query(stream, &status) != 0 || status != 0);
}

// Zero at first, for one entry function on one stream. A launch holds it until it is in the stream: the memory came from this
// stream, so its next user runs after the launch.
struct Workspace {
    std::atomic<int> owners{1};
    Tensor memory;
    int64_t bytes = 0;
    uint64_t address = 0;
};

struct WorkspaceKey {
    const void* launch;
    int64_t device;
    void* stream;
    bool operator==(const WorkspaceKey& o) const { return launch == o.launch && device == o.device && stream == o.stream; }
};

struct WorkspaceHash {
    size_t operator()(const WorkspaceKey& key) const {
        return std::hash<const void*>()(key.launch) ^ (std::hash<void*>()(key.stream) << 1) ^ static_cast<size_t>(key.device);
    }
};

Shared<Workspace> get_workspace(const WorkspaceKey& key, int32_t device_type, int64_t bytes) {
    static std::mutex mutex;
    static auto* workspaces = new std::unordered_map<WorkspaceKey, Shared<Workspace>, WorkspaceHash>;
    const std::lock_guard<std::mutex> lock(mutex);
    Shared<Workspace>& workspace = (*workspaces)[key];
    if (!workspace || workspace->bytes < bytes) {
        Shared<Workspace> larger(new Workspace);
        larger->memory = empty(&bytes, 1, torch_abi.dtype_uint8(), device_type, key.device);
        check(torch_abi.zero_(larger->memory.get()), "zero_");
        larger->bytes = bytes;
        larger->address = address_of(larger->memory.get());
        workspace = larger;
    }
    return workspace;
}

struct Recording {
    std::atomic<int> owners{1};
    FlashcoreRecording plan;
    std::vector<uint64_t> words;
    std::vector<std::pair<int64_t, int64_t>> addresses;
};

struct Operator {
    std::string name;
    std::string fallback;
    std::string signature;  // a letter per argument: T tensor, i int, f float, b bool, in capitals (U for tensors) if it may be None
    int returns = kFunctional;
    int32_t device_type = 0;
    bool has_streams = true;
    int64_t out = -1;  // the argument that receives the output, or -1
    std::mutex mutex;
    std::unordered_map<std::string, Shared<Recording>> recordings;
};

std::array<Operator, kMaxOperators> operators;
size_t operator_count = 0;
thread_local Shared<Recording> pending;
thread_local std::string failure;
thread_local bool has_failed = false;

template <class T>
void append(std::string& key, T value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append_tensor(std::string& key, AtenTensorHandle tensor) {
    int32_t dtype = 0, type = 0, index = 0;
    int64_t rank = 0;
    int64_t *sizes = nullptr, *strides = nullptr;
    check(torch_abi.get_dtype(tensor, &dtype), "dtype");
    check(torch_abi.get_device_type(tensor, &type), "device");
    check(torch_abi.get_device_index(tensor, &index), "device");
    check(torch_abi.get_dim(tensor, &rank), "dim");
    check(torch_abi.get_sizes(tensor, &sizes), "sizes");
    check(torch_abi.get_strides(tensor, &strides), "strides");
    append(key, static_cast<int64_t>(dtype) << 32 | static_cast<int64_t>(type) << 16 | (index & 0xff) << 8 | (rank & 0xff));
    key.append(reinterpret_cast<const char*>(sizes), static_cast<size_t>(rank) * sizeof(int64_t));
    key.append(reinterpret_cast<const char*>(strides), static_cast<size_t>(rank) * sizeof(int64_t));
}

bool is_optional(char kind) { return kind >= 'A' && kind <= 'Z' && kind != 'T'; }
bool is_tensor(char kind) { return kind == 'T' || kind == 'U'; }

// The value of an argument, or null if it is None.
const StableIValue* value_of(const Operator& op, const StableIValue* stack, size_t i) {
    return is_optional(op.signature[i]) ? reinterpret_cast<const StableIValue*>(stack[i]) : &stack[i];
}

AtenTensorHandle tensor_of(const Operator& op, const StableIValue* stack, int64_t i) {
    const StableIValue* value = i < 0 ? nullptr : value_of(op, stack, static_cast<size_t>(i));
    return value == nullptr ? nullptr : reinterpret_cast<AtenTensorHandle>(*value);
}

// Everything about the call but addresses.
std::string make_key(const Operator& op, const StableIValue* stack) {
    std::string key;
    key.reserve(1024);
    for (size_t i = 0; i < op.signature.size(); ++i) {
        const StableIValue* value = value_of(op, stack, i);
        key.push_back(value == nullptr ? '-' : '+');
        if (value == nullptr) continue;
        if (is_tensor(op.signature[i])) {
            append_tensor(key, reinterpret_cast<AtenTensorHandle>(*value));
        } else if ((op.signature[i] | 0x20) == 'b') {
            key.push_back((*value & 0xff) != 0 ? '1' : '0');
        } else {
            append(key, *value);
        }
    }
    return key;
}

void free_arguments(const Operator& op, StableIValue* stack) {
    for (size_t i = 0; i < op.signature.size(); ++i) {
        const StableIValue* value = value_of(op, stack, i);
        if (value == nullptr) continue;
        if (is_tensor(op.signature[i])) torch_abi.delete_tensor_object(reinterpret_cast<AtenTensorHandle>(*value));
        if (is_optional(op.signature[i])) delete value;
    }
}

// Returns false if the launch was refused or needs Python.
bool replay(const Operator& op, const Recording& recording, StableIValue* stack) {
    const FlashcoreRecording& plan = recording.plan;
    void* const stream = op.has_streams ? current_stream(plan.device) : nullptr;
    if (is_capturing(stream)) return false;
    std::array<uint64_t, kMaxWords> words;
    std::memcpy(words.data(), recording.words.data(), recording.words.size() * sizeof(uint64_t));
    for (const auto& [word, argument] : recording.addresses) words[word] = address_of(tensor_of(op, stack, argument));
    Tensor out, lse;
    if (plan.out_word >= 0) {
        const int32_t dtype = plan.out_is_bfloat16 != 0 ? torch_abi.dtype_bfloat16() : torch_abi.dtype_float16();
        out = empty(plan.out_sizes, plan.out_rank, dtype, op.device_type, plan.device);
        words[plan.out_word] = address_of(out.get());
    }
    if (plan.lse_word >= 0) {
        lse = empty(plan.lse_sizes, plan.lse_rank, torch_abi.dtype_float32(), op.device_type, plan.device);
        words[plan.lse_word] = address_of(lse.get());
    }
    const auto workspace = get_workspace({reinterpret_cast<const void*>(plan.launch), plan.device, stream}, op.device_type,
                                         plan.workspace_bytes);
    words[plan.workspace_word] = workspace->address;
    words[plan.stream_word] = reinterpret_cast<uint64_t>(stream);
    if (plan.launch(words.data()) != 0) return false;
    if (out.get() == nullptr && op.returns == kFlash3) {
        AtenTensorHandle same = nullptr;
        check(torch_abi.new_tensor_handle(tensor_of(op, stack, op.out), &same), "new_tensor_handle");
        out = Tensor(same);
    }
    free_arguments(op, stack);
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

void call(Operator& op, StableIValue* stack, uint64_t inputs, uint64_t outputs) {
    if (inputs != op.signature.size()) throw std::runtime_error("flashcore: " + op.name + " has another schema");
    const std::string key = make_key(op, stack);
    Shared<Recording> recording;
    {
        const std::lock_guard<std::mutex> lock(op.mutex);
        const auto found = op.recordings.find(key);
        if (found != op.recordings.end()) recording = found->second;
    }
    if (recording && replay(op, *recording, stack)) return;
    pending = {};
    has_failed = false;
    check(torch_abi.call_dispatcher(op.fallback.c_str(), "", stack), op.name.c_str());
    if (has_failed) {
        for (uint64_t i = 0; i < outputs; ++i) torch_abi.delete_tensor_object(reinterpret_cast<AtenTensorHandle>(stack[i]));
        throw std::runtime_error(failure);
    }
    if (pending) {
        const std::lock_guard<std::mutex> lock(op.mutex);
        if (op.recordings.size() >= kMaxRecordings) op.recordings.clear();
        op.recordings[key] = pending;
        pending = {};
    }
}

template <size_t I>
void boxed(StableIValue* stack, uint64_t inputs, uint64_t outputs) {
    call(operators[I], stack, inputs, outputs);
}

using Boxed = void (*)(StableIValue*, uint64_t, uint64_t);
constexpr std::array<Boxed, kMaxOperators> kBoxed = {boxed<0>, boxed<1>, boxed<2>, boxed<3>,
                                                     boxed<4>, boxed<5>, boxed<6>, boxed<7>};

}  // namespace
}  // namespace flashcore::torch_ops

// Finds PyTorch's functions in a library, by its handle of dlopen. Returns null, or the name of a missing function.
extern "C" const char* flashcore_ops_bind(void* library) { return flashcore::torch_ops::torch_abi.bind(library); }

// Registers the kernel of an operator that Python has defined. The key is CUDA, or in tests CPU. `out` is the argument that receives
// the output, or -1. Returns 0, or 1 if PyTorch refuses.
extern "C" int flashcore_ops_register(const char* space, const char* name, const char* key, const char* signature, int returns,
                                      int64_t out) {
    using namespace flashcore::torch_ops;
    if (operator_count == kMaxOperators) return 1;
    Operator& op = operators[operator_count];
    op.name = std::string(space) + "::" + name;
    op.fallback = std::string(space) + "::_" + name + "_in_python";
    op.signature = signature;
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
    recording->plan.words = nullptr;
    recording->plan.addresses = nullptr;
    pending = recording;
    return 0;
}

// Lets the operator whose fallback runs in this thread raise this message.
extern "C" void flashcore_ops_fail(const char* message) {
    flashcore::torch_ops::failure = message;
    flashcore::torch_ops::has_failed = true;
}

// Forgets all launches, because another library was loaded.
extern "C" void flashcore_ops_clear() {
    using namespace flashcore::torch_ops;
    for (size_t i = 0; i < operator_count; ++i) {
        const std::lock_guard<std::mutex> lock(operators[i].mutex);
        operators[i].recordings.clear();
    }
}
