// Counts the runtime calls of core/device.h and core/launch.cuh, over the fake runtime in runtime/. Output: one line per step
// with its name and the results.
#include <cstdio>
#include <initializer_list>

#include "flashcore/core/device.h"
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

}  // namespace

int main() {
    for (const int device : {0, 0, 2, 0, 1, 1, 70, 70, -1}) describe(device);
    launch<small, 48 * 1024>("small", 0);
    runtime::set_attribute_result = cudaErrorInvalidDevice;
    launch<large, 200 * 1024>("large", 0);
    runtime::set_attribute_result = cudaSuccess;
    for (const int device : {0, 0, 63, 63, 0, 64, 64}) launch<large, 200 * 1024>("large", device);
    launch<other, 200 * 1024>("other", 0);
}
