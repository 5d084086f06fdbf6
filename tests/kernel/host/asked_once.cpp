// Counts the runtime calls of core/device.h, core/launch.cuh and core/kept_maps.h, over the fake runtime in runtime/. Output: one line per step
// with its name and the results.
#include <cstdio>
#include <initializer_list>
#include <thread>

#include "flashcore/core/device.h"
#include "flashcore/core/kept_maps.h"
#include "flashcore/core/launch.cuh"

namespace {

void small(const int&) {}
void large(const int&) {}
void other(const int&) {}

void describe(int device) {
    flashcore::Device found;
    const auto status = flashcore::describe(device, found);
    std::printf("device %d: status %d, %d multiprocessors, %d questions\n", device, static_cast<int>(status),
                found.multiprocessors, runtime::device_queries);
}

template <auto kKernel, int kSharedBytes>
void launch(const char* name, int device) {
    runtime::current = device;
    const auto error = flashcore::launch<kKernel, 128, kSharedBytes>(0, 1, nullptr);
    std::printf("%s on %d: error %d, %d allowed, %d launched\n", name, device, error, runtime::attributes_set, runtime::launched);
}

int encoded = 0;
alignas(16) char memory[4096];

void encode(const char* name, flashcore::TensorShape shape, flashcore::DType dtype = flashcore::DType::kFp16, int device = 0) {
    shape.name = "k";
    CUtensorMap map{};
    const auto status = flashcore::encode_kept(shape, dtype, device, map);
    std::printf("%s: status %d, %d encoded, of its address: %d\n", name, static_cast<int>(status), encoded, map.data == shape.data);
}

// Each call differs from the first one in one thing.
void encode_all() {
    const flashcore::TensorShape shape{"", memory, {64, 9, 2, 4, 3}, {128, 1152, 2304, 9216}, {64, 8, 1, 1, 1}, 5};
    auto other = shape;
    encode("first", shape);
    encode("again", shape);
    encode("address", (other.data = memory + 16, other));
    encode("extent", (other = shape, other.extent[1] = 8, other));
    encode("stride", (other = shape, other.stride[3] = 9232, other));
    encode("refused", (other = shape, other.stride[3] = 9217, other));
    encode("refused", (other = shape, other.stride[3] = 9217, other));
    encode("box", (other = shape, other.box[4] = 3, other));
    encode("swizzle", (other = shape, other.swizzle = CU_TENSOR_MAP_SWIZZLE_64B, other));
    encode("dtype", shape, flashcore::DType::kBf16);
    encode("device", shape, flashcore::DType::kFp16, 1);
    encode("null", (other = shape, other.data = nullptr, other));
    encode("first", shape);
    encode("again", shape);
}

}  // namespace

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void* data, const cuuint64_t*, const cuuint64_t*,
                                const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    return ++encoded, map->data = data, CUDA_SUCCESS;
}

int main() {
    for (const int device : {0, 0, 2, 0, 1, 1, 70, 70, -1}) describe(device);
    launch<small, 48 * 1024>("small", 0);
    runtime::set_attribute_result = cudaErrorInvalidDevice;
    launch<large, 200 * 1024>("large", 0);
    runtime::set_attribute_result = cudaSuccess;
    for (const int device : {0, 0, 63, 63, 0, 64, 64}) launch<large, 200 * 1024>("large", device);
    launch<other, 200 * 1024>("other", 0);
    runtime::driver_function = reinterpret_cast<void*>(cuTensorMapEncodeTiled);
    encode_all();
    std::thread([] { encode("thread", {"", memory, {64, 9, 2, 4, 3}, {128, 1152, 2304, 9216}, {64, 8, 1, 1, 1}, 5}); }).join();
}
