// Device memory by the bytes in flight.
#include "harness.cuh"

namespace microbench {
namespace {

constexpr int kThreads = 32;

// Each CTA keeps `stages` chunks in flight. A chunk is one bulk copy.
__global__ void __launch_bounds__(kThreads, 1) read_chunks(const uint8_t* data, int64_t chunks, int chunk_bytes, int stages) {
    extern __shared__ __align__(1024) uint8_t memory[];
    __shared__ uint64_t full[64];
    if (threadIdx.x != 0) return;
    for (int i = 0; i < stages; ++i) ptx::mbarrier_init(&full[i], 1);
    ptx::fence_mbarrier_init();
    const int64_t own = (chunks - blockIdx.x + gridDim.x - 1) / gridDim.x;
    const uint8_t* next = data + static_cast<int64_t>(blockIdx.x) * chunk_bytes;
    int slot = 0;  // in a ring without divisions, because only copies should limit the loop
    uint32_t parity = 0;
    for (int64_t i = -stages; i < own; ++i) {
        if (i >= 0) ptx::mbarrier_wait(&full[slot], parity ^ 1);  // the ring is ahead by as many chunks as it has slots
        if (i + stages < own) {
            ptx::mbarrier_arrive_expect_tx(&full[slot], static_cast<uint32_t>(chunk_bytes));
            copy_bulk(memory + slot * chunk_bytes, next, static_cast<uint32_t>(chunk_bytes), &full[slot]);
            next += static_cast<int64_t>(gridDim.x) * chunk_bytes;
        }
        if (++slot == stages) {
            slot = 0;
            parity ^= 1;
        }
    }
}

void read_device(const DeviceArray<uint8_t>& data, int64_t bytes, int chunk_bytes, int stages) {
    allow_shared(read_chunks, chunk_bytes * stages);
    cudaEvent_t begin;
    cudaEvent_t end;
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
    std::vector<double> rate;
    for (int repetition = 0; repetition < 6; ++repetition) {
        check(cudaEventRecord(begin), "event");
        read_chunks<<<multiprocessors(), kThreads, static_cast<size_t>(chunk_bytes) * stages>>>(data.get(), bytes / chunk_bytes,
                                                                                                chunk_bytes, stages);
        check(cudaEventRecord(end), "event");
        check(cudaEventSynchronize(end), "read");
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, begin, end), "event");
        rate.push_back(static_cast<double>(bytes) / milliseconds * 1e-9);
    }
    const int kibibytes = chunk_bytes * stages / 1024;
    report("device memory", std::to_string(kibibytes) + " KiB in flight per SM, chunks of " + std::to_string(chunk_bytes / 1024) + " KiB",
           median(rate), "TB/s");
}

}  // namespace

void run_memory() {
    constexpr int64_t kBytes = int64_t{4} << 30;
    const DeviceArray<uint8_t> data(kBytes);
    data.clear();
    for (const int kibibytes : {8, 16, 32, 48, 64, 128, 192}) read_device(data, kBytes, 8 << 10, kibibytes / 8);
    for (const int chunk : {2, 4, 16, 32}) read_device(data, kBytes, chunk << 10, 64 / chunk);
}

}  // namespace microbench
