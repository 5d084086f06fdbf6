// Common code of the microbenchmarks: the groups, launches, clocks, medians, and one JSON line per reading.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "flashcore/ptx/mbarrier.cuh"

namespace microbench {

namespace ptx = flashcore::ptx;

void run_pipes();
void run_attend();
void run_latency();
void run_memory();
void run_clocks();
void run_fp8();

constexpr int kWarpgroup = 128;

inline void check(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "microbench: %s: %s\n", what, cudaGetErrorString(error));
    std::exit(4);
}

inline int multiprocessors() {
    int count = 0;
    check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0), "device 0");
    return count;
}

template <class T>
T median(std::vector<T> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

template <class T>
class DeviceArray {
public:
    explicit DeviceArray(size_t count) : count_(count) { check(cudaMalloc(&data_, count * sizeof(T)), "memory"); }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;
    ~DeviceArray() { cudaFree(data_); }
    T* get() const { return data_; }
    void clear() const { check(cudaMemset(data_, 0, count_ * sizeof(T)), "memset"); }
    std::vector<T> copy() const {
        std::vector<T> host(count_);
        check(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "kernel");
        return host;
    }

private:
    T* data_ = nullptr;
    size_t count_;
};

// Median of `rate(result)` over the blocks of four launches, after one that does not count.
template <class Result, class Launch, class Rate>
double median_of(int blocks, Launch launch, Rate rate) {
    const DeviceArray<Result> out(blocks);
    std::vector<double> values;
    for (int repetition = 0; repetition < 5; ++repetition) {
        launch(out.get());
        check(cudaGetLastError(), "launch");
        for (const Result& one : out.copy()) {
            if (repetition > 0) values.push_back(rate(one));
        }
    }
    return median(values);
}

// One reading: what was measured, the conditions ("name=value ..."), the number and its unit.
inline void report(const char* group, const std::string& what, double value, const char* unit) {
    std::printf("{\"group\": \"%s\", \"what\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", group, what.c_str(), value, unit);
    std::fflush(stdout);
}

__device__ __forceinline__ uint64_t clock_now() {
    uint64_t value;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(value)::"memory");
    return value;
}
__device__ __forceinline__ uint64_t nanoseconds_now() {
    uint64_t value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
    return value;
}

// Fills shared memory with numbers in (-2, 2) with random-looking bits, because power and so the clock depend on the data.
__device__ __forceinline__ void fill_with_numbers(uint8_t* memory, int bytes) {
    for (int i = static_cast<int>(threadIdx.x); i < bytes / 2; i += static_cast<int>(blockDim.x)) {
        uint32_t hash = (i + 1) * 2654435761u ^ blockIdx.x * 40503u;
        hash ^= hash >> 15;
        hash *= 2246822519u;
        hash ^= hash >> 13;
        const uint16_t exponent = 11 + (hash >> 16 & 3) + (hash >> 18 & 1);  // 2^-4 .. 2^0
        reinterpret_cast<uint16_t*>(memory)[i] = static_cast<uint16_t>((hash & 0x83FF) | exponent << 10);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}

// Uses registers so that the compiler cannot remove their computation.
template <int kCount>
__device__ __forceinline__ void use(const float (&values)[kCount], uint64_t* out) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum += values[i];
    if (sum == 1.2345678e-30f) *out = 1;
}

__device__ __forceinline__ void copy_bulk(void* shared, const void* global, uint32_t bytes, uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     ptx::shared_address(shared)),
                 "l"(global), "r"(bytes), "r"(ptx::shared_address(barrier))
                 : "memory");
}

template <class Kernel>
void allow_shared(Kernel kernel, int bytes) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "shared memory");
}

}  // namespace microbench
