// PyTorch's stable ABI: its functions, found at run time, and owners of what they return.
#pragma once

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

namespace std {
// Containers call it since GCC 11. Defined here, the library needs no newer C++ library.
void __throw_bad_array_new_length() { throw std::bad_alloc(); }
}  // namespace std

namespace flashcore::torch_ops {

// The functions of PyTorch's stable ABI. They are looked up in the PyTorch that Python has loaded, so this library links to none.
struct TorchAbi {
    decltype(&aoti_torch_call_dispatcher) call_dispatcher;
    decltype(&aoti_torch_delete_tensor_object) delete_tensor_object;
    decltype(&aoti_torch_device_type_cpu) device_type_cpu;
    decltype(&aoti_torch_device_type_cuda) device_type_cuda;
    decltype(&aoti_torch_dtype_bfloat16) dtype_bfloat16;
    decltype(&aoti_torch_dtype_float16) dtype_float16;
    decltype(&aoti_torch_dtype_float32) dtype_float32;
    decltype(&aoti_torch_empty_strided) empty_strided;
    decltype(&aoti_torch_get_data_ptr) get_data_ptr;
    decltype(&aoti_torch_get_device_index) get_device_index;
    decltype(&aoti_torch_get_device_type) get_device_type;
    decltype(&aoti_torch_get_dim) get_dim;
    decltype(&aoti_torch_get_dtype) get_dtype;
    decltype(&aoti_torch_get_sizes) get_sizes;
    decltype(&aoti_torch_get_strides) get_strides;
    decltype(&aoti_torch_grad_mode_is_enabled) grad_mode_is_enabled;
    decltype(&aoti_torch_library_impl) library_impl;
    decltype(&aoti_torch_library_init_impl) library_init_impl;
    decltype(&aoti_torch_new_tensor_handle) new_tensor_handle;
    decltype(&aoti_torch_new_uninitialized_tensor) new_uninitialized_tensor;
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
        find("aoti_torch_empty_strided", empty_strided);
        find("aoti_torch_get_data_ptr", get_data_ptr);
        find("aoti_torch_get_device_index", get_device_index);
        find("aoti_torch_get_device_type", get_device_type);
        find("aoti_torch_get_dim", get_dim);
        find("aoti_torch_get_dtype", get_dtype);
        find("aoti_torch_get_sizes", get_sizes);
        find("aoti_torch_get_strides", get_strides);
        find("aoti_torch_grad_mode_is_enabled", grad_mode_is_enabled);
        find("aoti_torch_library_impl", library_impl);
        find("aoti_torch_library_init_impl", library_init_impl);
        find("aoti_torch_new_tensor_handle", new_tensor_handle);
        find("aoti_torch_new_uninitialized_tensor", new_uninitialized_tensor);
        const char* const required = missing;
        find("aoti_torch_get_current_cuda_stream", get_current_cuda_stream);  // a build without CUDA only defines operators
        return required;
    }
};

inline TorchAbi torch_abi;

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

inline void check(AOTITorchError error, const char* what) {
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

inline uint64_t address_of(AtenTensorHandle tensor) {
    void* data = nullptr;
    check(torch_abi.get_data_ptr(tensor, &data), "data_ptr");
    return reinterpret_cast<uint64_t>(data);
}

// A contiguous tensor that a call makes.
struct NewTensor {
    int64_t rank = 0;
    std::array<int64_t, 4> sizes{}, strides{};
    int32_t dtype = 0;

    NewTensor() = default;
    NewTensor(const int64_t* extents, int64_t count, int32_t type) : rank(count), dtype(type) {
        int64_t stride = 1;
        for (int64_t i = rank; i-- > 0;) {
            sizes[i] = extents[i];
            strides[i] = stride;
            stride *= sizes[i] > 1 ? sizes[i] : 1;
        }
    }
    Tensor make(int32_t device_type, int64_t device) const {
        AtenTensorHandle handle = nullptr;
        check(torch_abi.empty_strided(rank, sizes.data(), strides.data(), dtype, device_type, static_cast<int32_t>(device), &handle),
              "empty");
        return Tensor(handle);
    }
};

inline void* current_stream(int64_t device) {
    if (torch_abi.get_current_cuda_stream == nullptr) throw std::runtime_error("flashcore: PyTorch has no CUDA. Install one with CUDA");
    void* stream = nullptr;
    check(torch_abi.get_current_cuda_stream(static_cast<int32_t>(device), &stream), "current_stream");
    return stream;
}

}  // namespace flashcore::torch_ops
