// From L2 to shared memory, and from device memory, by the bytes in flight.
#include "flashcore/core/tensor_map.h"
#include "harness.cuh"

namespace microbench {
namespace {

constexpr int kColumns = 64;  // fp16 elements of a swizzled box's row
constexpr int kRows = 128;    // rows of a tile
constexpr int kTileBytes = kColumns * kRows * 2;
constexpr int kThreads = 32;

// Position in a ring of slots, without divisions, because only copies should limit the loop.
struct Ring {
    int slots;
    int slot = 0;
    uint32_t parity = 0;
    __device__ __forceinline__ void advance() {
        if (++slot == slots) {
            slot = 0;
            parity ^= 1;
        }
    }
};

// Keeps up to `stages` copies of `bytes` in flight, until `count` have arrived. `copy(slot, barrier)` issues the next one.
template <class Copy>
__device__ __forceinline__ void keep_in_flight(int stages, uint32_t bytes, int64_t count, Copy copy) {
    __shared__ uint64_t full[64];
    for (int i = 0; i < stages; ++i) ptx::mbarrier_init(&full[i], 1);
    ptx::fence_mbarrier_init();
    Ring ring{stages};
    const auto issue = [&] {
        ptx::mbarrier_arrive_expect_tx(&full[ring.slot], bytes);
        copy(ring.slot, &full[ring.slot]);
    };
    for (int64_t i = 0; i < stages && i < count; ++i) {
        issue();
        ring.advance();
    }
    for (int64_t i = 0; i < count; ++i) {
        ptx::mbarrier_wait(&full[ring.slot], ring.parity ^ 1);  // the ring is ahead by as many copies as it has slots
        if (i + stages < count) issue();
        ring.advance();
    }
}

// CTAs of one stream read the same tiles, every `streams`-th of the tensor, around.
__global__ void __launch_bounds__(kThreads, 1)
    read_tiles(const __grid_constant__ CUtensorMap map, uint64_t* cycles, int tiles, int stages, int streams, int tensor_tiles) {
    extern __shared__ __align__(1024) uint8_t memory[];
    if (threadIdx.x != 0) return;
    int next = static_cast<int>(blockIdx.x) % streams;
    const uint64_t begin = clock_now();
    keep_in_flight(stages, kTileBytes, tiles, [&](int slot, uint64_t* barrier) {
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
                         ptx::shared_address(memory + slot * kTileBytes)),
                     "l"(&map), "r"(ptx::shared_address(barrier)), "r"(0), "r"(next * kRows)
                     : "memory");
        next += streams;
        if (next >= tensor_tiles) next -= tensor_tiles;
    });
    cycles[blockIdx.x] = clock_now() - begin;
}

void read_l2(int stages, int streams, const char* what) {
    constexpr int kTensorTiles = (24 << 20) / kTileBytes;
    constexpr int kTiles = 2000;
    const DeviceArray<uint8_t> data(static_cast<size_t>(kTensorTiles) * kTileBytes);
    data.clear();
    const flashcore::TensorShape shape{"tiles", data.get(), {kColumns, kTensorTiles * kRows}, {kColumns * 2}, {kColumns, kRows}, 2};
    CUtensorMap map{};
    if (flashcore::encode(shape, flashcore::DType::kFp16, map) != flashcore::Status::kOk) {
        check(cudaErrorNotSupported, flashcore::last_error_message());
    }
    const int shared = stages * kTileBytes;
    allow_shared(read_tiles, shared);
    const double rate = median_of<uint64_t>(
        multiprocessors(),
        [&](uint64_t* cycles) {
            read_tiles<<<multiprocessors(), kThreads, shared>>>(map, cycles, kTiles, stages, streams, kTensorTiles);
        },
        [](uint64_t cycles) { return static_cast<double>(kTiles) * kTileBytes / static_cast<double>(cycles); });
    report("l2", std::string(what) + ", " + std::to_string(stages) + " tiles of 16 KiB in flight, cluster of 1", rate, "B/clk/SM");
}

// Device memory: a chunk is one bulk copy.
__global__ void __launch_bounds__(kThreads, 1) read_chunks(const uint8_t* data, int64_t chunks, int chunk_bytes, int stages) {
    extern __shared__ __align__(1024) uint8_t memory[];
    if (threadIdx.x != 0) return;
    const int64_t own = (chunks - blockIdx.x + gridDim.x - 1) / gridDim.x;
    const uint8_t* next = data + static_cast<int64_t>(blockIdx.x) * chunk_bytes;
    keep_in_flight(stages, static_cast<uint32_t>(chunk_bytes), own, [&](int slot, uint64_t* barrier) {
        copy_bulk(memory + slot * chunk_bytes, next, static_cast<uint32_t>(chunk_bytes), barrier);
        next += static_cast<int64_t>(gridDim.x) * chunk_bytes;
    });
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
    for (const int stages : {1, 2, 4, 8}) read_l2(stages, multiprocessors(), "each CTA its own tiles of 24 MiB");
    for (const int stages : {2, 4, 8}) read_l2(stages, 8, "eight streams of tiles of 24 MiB");
    constexpr int64_t kBytes = int64_t{4} << 30;
    const DeviceArray<uint8_t> data(kBytes);
    data.clear();
    for (const int kibibytes : {8, 16, 32, 48, 64, 128, 192}) read_device(data, kBytes, 8 << 10, kibibytes / 8);
    for (const int chunk : {2, 4, 16, 32}) read_device(data, kBytes, chunk << 10, 64 / chunk);
}

}  // namespace microbench
