// From L2 to shared memory with and without multicast, and from device memory by the bytes in flight.
#include "copies.cuh"
#include "flashcore/core/tensor_map.h"
#include "harness.cuh"
#include "suite.h"

namespace microbench {
namespace {

constexpr int kColumns = 64;  // fp16 elements of a swizzled box's row
constexpr int kRows = 128;    // rows of a tile
constexpr int kTileBytes = kColumns * kRows * 2;
constexpr int kMostStages = 12;
constexpr int kThreads = 32;

struct Barriers {
    uint64_t full[kMostStages];
    uint64_t empty[kMostStages];
};

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

// Every CTA keeps up to `stages` tiles in flight, `tiles` in total. The CTAs of a cluster share each tile: each copies its part
// of the rows to all of them. CTAs (or clusters) of one stream read the same tiles, every `streams`-th of the tensor, around. A
// slot is filled again `lag` tiles after it was read, so that no CTA waits for the other CTAs' arrivals.
template <int kCluster>
__global__ void __launch_bounds__(kThreads, 1)
    read_tiles(const __grid_constant__ CUtensorMap map, uint64_t* cycles, int tiles, int stages, int streams, int tensor_tiles) {
    extern __shared__ __align__(1024) uint8_t memory[];
    __shared__ Barriers barriers;
    const uint32_t rank = kCluster > 1 ? cluster_rank() : 0;
    if (threadIdx.x == 0) {
        for (int i = 0; i < stages; ++i) {
            ptx::mbarrier_init(&barriers.full[i], 1);
            ptx::mbarrier_init(&barriers.empty[i], kCluster);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (kCluster > 1) cluster_sync();
    if (threadIdx.x == 0) {
        int next = static_cast<int>(blockIdx.x) / kCluster % streams;
        Ring filling{stages};
        Ring reading{stages};
        const auto issue = [&] {
            const int slot = filling.slot;
            ptx::mbarrier_wait(&barriers.empty[slot], filling.parity ^ 1);
            ptx::mbarrier_arrive_expect_tx(&barriers.full[slot], kTileBytes);
            if constexpr (kCluster == 1) {
                copy_tensor(memory + slot * kTileBytes, &map, &barriers.full[slot], 0, next * kRows);
            } else {
                constexpr int kPart = kRows / kCluster;
                copy_tensor_multicast(memory + slot * kTileBytes + rank * kPart * kColumns * 2, &map, &barriers.full[slot], 0,
                                      next * kRows + static_cast<int>(rank) * kPart, (1 << kCluster) - 1);
            }
            filling.advance();
            next += streams;
            if (next >= tensor_tiles) next -= tensor_tiles;
        };
        const int lag = kCluster == 1 ? 0 : stages / 2;
        const uint64_t begin = clock_now();
        for (int tile = 0; tile < stages - lag; ++tile) issue();
        for (int tile = 0; tile < tiles; ++tile) {
            ptx::mbarrier_wait(&barriers.full[reading.slot], reading.parity);
            for (uint32_t i = 0; i < kCluster; ++i) {
                if constexpr (kCluster > 1) {
                    arrive_in(&barriers.empty[reading.slot], i);
                } else {
                    ptx::mbarrier_arrive(&barriers.empty[reading.slot]);
                }
            }
            reading.advance();
            if (tile + stages - lag < tiles) issue();
        }
        cycles[blockIdx.x] = clock_now() - begin;
    }
    __syncwarp();
    if (kCluster > 1) cluster_sync();
}

CUtensorMap make_map(void* data, int64_t rows, uint32_t box_rows) {
    flashcore::EncodeTiled encoder = nullptr;
    if (flashcore::find_encoder(encoder) != flashcore::Status::kOk) check(cudaErrorNotSupported, flashcore::last_error_message());
    CUtensorMap map{};
    const cuuint64_t extent[2] = {kColumns, static_cast<cuuint64_t>(rows)};
    const cuuint64_t stride[1] = {kColumns * 2};
    const cuuint32_t box[2] = {kColumns, box_rows};
    const cuuint32_t element[2] = {1, 1};
    const CUresult result = encoder(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, data, extent, stride, box, element,
                                    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) check(cudaErrorInvalidValue, "tensor map");
    return map;
}

template <int kCluster>
void read_l2(int stages, int streams, int64_t megabytes, const char* what) {
    const int tensor_tiles = static_cast<int>((megabytes << 20) / kTileBytes);
    DeviceArray<uint8_t> data(static_cast<size_t>(tensor_tiles) * kTileBytes);
    data.clear();
    const CUtensorMap map = make_map(data.get(), static_cast<int64_t>(tensor_tiles) * kRows, kRows / kCluster);
    const int blocks = multiprocessors() / kCluster * kCluster;
    DeviceArray<uint64_t> cycles(blocks);
    auto* kernel = read_tiles<kCluster>;
    const int shared = stages * kTileBytes;
    allow_shared(kernel, shared);
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {kCluster, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(blocks));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = static_cast<size_t>(shared);
    config.attrs = &cluster;
    config.numAttrs = 1;
    constexpr int kTiles = 2000;
    std::vector<double> rate;
    for (int repetition = 0; repetition < 4; ++repetition) {
        check(cudaLaunchKernelEx(&config, kernel, map, cycles.get(), kTiles, stages, std::min(streams, blocks / kCluster), tensor_tiles),
              "launch");
        for (const uint64_t one : cycles.copy()) {
            if (repetition > 0) rate.push_back(static_cast<double>(kTiles) * kTileBytes / static_cast<double>(one));
        }
    }
    report("l2", std::string(what) + ", " + std::to_string(kCluster == 1 ? stages : stages - stages / 2) + " tiles of 16 KiB in flight, cluster of " +
               std::to_string(kCluster),
           median(rate), "B/clk/SM");
}

// Device memory: each CTA keeps `stages` chunks in flight. A chunk is one bulk copy.
__global__ void __launch_bounds__(kThreads, 1) read_chunks(const uint8_t* data, int64_t chunks, int chunk_bytes, int stages) {
    extern __shared__ __align__(1024) uint8_t memory[];
    __shared__ uint64_t full[64];
    if (threadIdx.x != 0) return;
    for (int i = 0; i < stages; ++i) ptx::mbarrier_init(&full[i], 1);
    ptx::fence_mbarrier_init();
    const int64_t own = (chunks - blockIdx.x + gridDim.x - 1) / gridDim.x;
    const uint8_t* next = data + static_cast<int64_t>(blockIdx.x) * chunk_bytes;
    Ring ring{stages};
    const auto issue = [&] {
        ptx::mbarrier_arrive_expect_tx(&full[ring.slot], static_cast<uint32_t>(chunk_bytes));
        copy_bulk(memory + ring.slot * chunk_bytes, next, static_cast<uint32_t>(chunk_bytes), &full[ring.slot]);
        next += static_cast<int64_t>(gridDim.x) * chunk_bytes;
    };
    for (int64_t i = 0; i < stages && i < own; ++i) {
        issue();
        ring.advance();
    }
    for (int64_t i = 0; i < own; ++i) {
        ptx::mbarrier_wait(&full[ring.slot], ring.parity ^ 1);  // the ring is ahead by as many tiles as it has slots
        if (i + stages < own) issue();
        ring.advance();
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
    for (const int stages : {1, 2, 4, 8, 12}) read_l2<1>(stages, 132, 24, "each CTA its own tiles of 24 MiB");
    for (const int stages : {2, 4, 8}) read_l2<1>(stages, 8, 24, "eight streams of tiles of 24 MiB");
    for (const int stages : {4, 8, 12}) read_l2<2>(stages, 132, 24, "each cluster its own tiles of 24 MiB");
    for (const int stages : {4, 8, 12}) read_l2<2>(stages, 8, 24, "eight streams of tiles of 24 MiB");
    for (const int stages : {4, 8, 12}) read_l2<4>(stages, 132, 24, "each cluster its own tiles of 24 MiB");
    constexpr int64_t kBytes = int64_t{4} << 30;
    const DeviceArray<uint8_t> data(kBytes);
    data.clear();
    for (const int kibibytes : {8, 16, 24, 32, 40, 48, 64, 96, 128, 192}) read_device(data, kBytes, 8 << 10, kibibytes / 8);
    for (const int chunk : {2, 4, 16, 32}) read_device(data, kBytes, chunk << 10, 64 / chunk);
    for (const int chunk : {4, 16, 32}) read_device(data, kBytes, chunk << 10, 192 / chunk);
}

}  // namespace microbench
