// Tensor maps that a thread encoded before. A server's caches stay where they are, so most launches find theirs. Host code.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "flashcore/core/tensor_map.h"

namespace flashcore {

using TensorMapKey = std::array<uint64_t, 15>;

struct KeptMap {
    CUtensorMap map;
    TensorMapKey key;
};

// All that is encoded, and the device.
inline TensorMapKey make_key(const TensorShape& tensor, DType dtype, int device) {
    const auto pair = [](auto low, auto high) { return static_cast<uint32_t>(low) | static_cast<uint64_t>(high) << 32; };
    TensorMapKey key{reinterpret_cast<uint64_t>(tensor.data),
                     pair(dtype, device),
                     pair(tensor.promotion, tensor.swizzle),
                     pair(tensor.rank, tensor.box[0]),
                     pair(tensor.box[1], tensor.box[2]),
                     pair(tensor.box[3], tensor.box[4])};
    for (int i = 0; i < kTensorRank; ++i) key[6 + i] = static_cast<uint64_t>(tensor.extent[i]);
    for (int i = 0; i < kTensorRank - 1; ++i) key[6 + kTensorRank + i] = static_cast<uint64_t>(tensor.stride[i]);
    return key;
}

// As encode. The map is kept for later calls of the thread, and replaces another one if their addresses give the same place.
inline Status encode_kept(const TensorShape& tensor, DType dtype, int device, CUtensorMap& map) {
    constexpr int kBits = 8;
    constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;  // 2^64 / the golden ratio
    static thread_local std::vector<KeptMap> maps(size_t{1} << kBits);
    const TensorMapKey key = make_key(tensor, dtype, device);
    KeptMap& kept = maps[key[0] * kSpread >> (64 - kBits)];
    if (tensor.data != nullptr && kept.key == key) {
        map = kept.map;
        return Status::kOk;
    }
    FLASHCORE_RETURN_IF_FAILED(encode(tensor, dtype, map));
    kept = {map, key};
    return Status::kOk;
}

}  // namespace flashcore
