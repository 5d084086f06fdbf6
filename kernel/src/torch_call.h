// The arguments of an operator's call: which calls can repeat one launch, and what the call has to free.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "torch_abi.h"
#include "torch_errors.h"

namespace flashcore::torch_ops {

constexpr size_t kMaxArguments = 48;
constexpr int64_t kMaxRank = 4;  // of a tensor that a launch takes
constexpr size_t kMaxKeyWords = 1 + kMaxArguments * (1 + 2 * kMaxRank);

struct Parameter {
    bool is_tensor;
    bool is_bool;
    bool is_optional;  // its value is an address, or 0 for None
};

// Reads a letter per argument: T tensor, i int, f float, b bool, in capitals (U for tensors) if it may be None.
inline std::vector<Parameter> parse(const std::string& signature) {
    std::vector<Parameter> parameters;
    for (const char letter : signature) {
        parameters.push_back({letter == 'T' || letter == 'U', letter == 'b' || letter == 'B', letter < 'a' && letter != 'T'});
    }
    return parameters;
}

class Call {
public:
    Call(const std::vector<Parameter>& parameters, const StableIValue* stack) {
        uint64_t present = 0;
        for (size_t i = 0; i < parameters.size(); ++i) {
            const Parameter parameter = parameters[i];
            StableIValue value = stack[i];
            if (parameter.is_optional) {
                if (value == 0) continue;
                const auto* box = reinterpret_cast<const StableIValue*>(value);
                boxes_[box_count_++] = box;
                value = *box;
            }
            present |= uint64_t{1} << i;
            if (parameter.is_tensor) {
                add_tensor(i, reinterpret_cast<AtenTensorHandle>(value));
            } else {
                words_[word_count_++] = parameter.is_bool ? value & 0xff : value;
            }
        }
        words_[0] = present;
    }

    bool can_repeat() const { return can_repeat_; }
    // Whether two calls differ only in addresses.
    bool has_key(const std::string& key) const {
        return key.size() == key_bytes() && std::memcmp(key.data(), words_.data(), key_bytes()) == 0;
    }
    std::string copy_key() const { return {reinterpret_cast<const char*>(words_.data()), key_bytes()}; }
    AtenTensorHandle tensor(int64_t i) const { return tensors_[static_cast<size_t>(i)]; }  // an argument that is not None

    void free() const {
        // PyTorch takes it for every tensor that Python has, unless it is held. A thread without Python rarely has such a tensor.
        const PythonLock lock(python().knows_thread());
        for (size_t i = 0; i < tensor_count_; ++i) torch_abi.delete_tensor_object(tensors_[positions_[i]]);
        for (size_t i = 0; i < box_count_; ++i) delete boxes_[i];
    }

private:
    size_t key_bytes() const { return word_count_ * sizeof(uint64_t); }
    void add_tensor(size_t i, AtenTensorHandle tensor) {
        int32_t dtype = 0, type = 0, index = 0;
        int64_t rank = 0;
        int64_t *sizes = nullptr, *strides = nullptr;
        check(torch_abi.get_dtype(tensor, &dtype), "dtype");
        check(torch_abi.get_device_type(tensor, &type), "device");
        check(torch_abi.get_device_index(tensor, &index), "device");
        check(torch_abi.get_dim(tensor, &rank), "dim");
        check(torch_abi.get_sizes(tensor, &sizes), "sizes");
        check(torch_abi.get_strides(tensor, &strides), "strides");
        tensors_[i] = tensor;
        positions_[tensor_count_++] = static_cast<uint8_t>(i);
        can_repeat_ = can_repeat_ && rank <= kMaxRank;
        if (rank > kMaxRank) return;
        words_[word_count_++] = static_cast<uint64_t>(dtype) << 32 | static_cast<uint64_t>(type) << 16 |
                                static_cast<uint64_t>(index & 0xff) << 8 | static_cast<uint64_t>(rank);
        for (int64_t d = 0; d < rank; ++d) words_[word_count_++] = static_cast<uint64_t>(sizes[d]);
        for (int64_t d = 0; d < rank; ++d) words_[word_count_++] = static_cast<uint64_t>(strides[d]);
    }

    bool can_repeat_ = true;
    size_t word_count_ = 1, tensor_count_ = 0, box_count_ = 0;
    std::array<uint64_t, kMaxKeyWords> words_;  // which arguments are not None, then everything about them but addresses
    std::array<AtenTensorHandle, kMaxArguments> tensors_;
    std::array<uint8_t, kMaxArguments> positions_;
    std::array<const StableIValue*, kMaxArguments> boxes_;
};

}  // namespace flashcore::torch_ops
