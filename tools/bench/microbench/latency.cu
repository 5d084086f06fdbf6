// Clocks from issue to result: mmas, and a copy from L2 and from device memory.
#include "flashcore/ptx/wgmma.cuh"
#include "flashcore/sm90/smem_descriptor.cuh"
#include "harness.cuh"

namespace microbench {
namespace {

namespace sm90 = flashcore::sm90;

constexpr int kRounds = 200;
constexpr int kSharedBytes = 2 * 64 * (64 + 128);

// kCount mmas of 64 x 128 x 16 into the same accumulators, then the wait.
template <int kCount>
__global__ void __launch_bounds__(kWarpgroup, 1) product_latency(uint64_t* out) {
    extern __shared__ __align__(1024) uint8_t memory[];
    fill_with_numbers(memory, kSharedBytes);
    const uint64_t a = sm90::k_major_descriptor(memory);
    const uint64_t b = sm90::k_major_descriptor(memory + sm90::tile_bytes<__half>(64, 64));
    float sums[64] = {};
    const uint64_t begin = clock_now();
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round) {
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            ptx::Wgmma<__half, 128>::shared(sums, a + sm90::k_major_offset(i % 4, 64), b + sm90::k_major_offset(i % 4, 128), 1);
        }
        ptx::wgmma_commit();
        ptx::wgmma_wait<0>();
        ptx::warpgroup_fence_operand(sums);
    }
    const uint64_t end = clock_now();
    use(sums, out);
    if (threadIdx.x == 0) out[blockIdx.x] = end - begin;
}

// One copy at a time, `stride` bytes apart: either small enough to stay in L2, or always new bytes.
__global__ void copy_latency(uint64_t* out, const uint8_t* data, uint32_t bytes, int64_t stride) {
    extern __shared__ __align__(1024) uint8_t memory[];
    __shared__ uint64_t barrier;
    ptx::mbarrier_init(&barrier, 1);
    ptx::fence_mbarrier_init();
    const uint64_t begin = clock_now();
    for (int round = 0; round < kRounds; ++round) {
        ptx::mbarrier_arrive_expect_tx(&barrier, bytes);
        copy_bulk(memory, data + round * stride, bytes, &barrier);
        ptx::mbarrier_wait(&barrier, round & 1);
    }
    out[blockIdx.x] = clock_now() - begin;
}

template <class Launch>
double clocks_of(int blocks, Launch launch) {
    return median_of<uint64_t>(blocks, launch, [](uint64_t clocks) { return static_cast<double>(clocks) / kRounds; });
}

template <int kCount>
void products() {
    allow_shared(product_latency<kCount>, kSharedBytes);
    const double clocks = clocks_of(multiprocessors(), [](uint64_t* out) {
        product_latency<kCount><<<multiprocessors(), kWarpgroup, kSharedBytes>>>(out);
    });
    report("latency", std::to_string(kCount) + " x m64n128k16 from shared memory and the wait (64 clk each at full rate)", clocks, "clk");
}

}  // namespace

void run_latency() {
    products<1>();
    products<4>();
    constexpr int64_t kFar = 1 << 20;
    const DeviceArray<uint8_t> data(kFar * kRounds);
    const DeviceArray<uint8_t> other(size_t{256} << 20);
    for (const uint32_t bytes : {1024u, 16384u}) {
        const auto copy = [&](int64_t stride, bool cold) {
            return clocks_of(1, [&, stride, cold](uint64_t* out) {
                if (cold) other.clear();
                copy_latency<<<1, 1, bytes>>>(out, data.get(), bytes, stride);
            });
        };
        report("latency", "copy of " + std::to_string(bytes) + " bytes from L2", copy(0, false), "clk");
        report("latency", "copy of " + std::to_string(bytes) + " bytes from device memory", copy(kFar, true), "clk");
    }
}

}  // namespace microbench
