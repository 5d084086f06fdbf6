// How fast E4M3 pairs become fp16 pairs, alone and next to the products that use them, as in decode over an FP8 cache.
#include "flashcore/ptx/mma.cuh"
#include "harness.cuh"

namespace microbench {
namespace {

constexpr int kRounds = 2000;
constexpr int kProducts = 8;  // independent m16n8k16 products in a round: each takes two converted registers per thread

__device__ __forceinline__ uint32_t to_fp16_pair(uint16_t pair) {
    uint32_t value;
    asm volatile("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(value) : "h"(pair));
    return value;
}

// Each thread converts one register of four E4M3 values per product (two conversions). With kDecode it loads the register from
// shared memory, 16 bytes at a time as from a tile of the cache, and multiplies.
template <bool kDecode>
__global__ void convert(uint64_t* out, uint64_t* sink) {
    extern __shared__ __align__(16) uint8_t memory[];
    fill_with_numbers(memory, 32768);
    const uint32_t lane = threadIdx.x;
    uint32_t packed[kProducts];
    uint32_t rows[4];
    float sums[kProducts][4] = {};
    uint32_t kept = 0;
    for (int i = 0; i < kProducts; ++i) packed[i] = reinterpret_cast<uint32_t*>(memory)[(lane * kProducts + i) % 8192];
    for (int i = 0; i < 4; ++i) rows[i] = reinterpret_cast<uint32_t*>(memory)[(lane * 4 + i) % 8192];
    __syncthreads();
    const uint64_t begin = clock_now();
#pragma unroll 1
    for (int round = 0; round < kRounds; ++round) {
        if constexpr (kDecode) {
#pragma unroll
            for (int i = 0; i < kProducts; i += 4) {
                const uint32_t at = ((lane + round * 32) * 16 + i * 4096) % 32768;
                asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(packed[i]), "=r"(packed[i + 1]), "=r"(packed[i + 2]), "=r"(packed[i + 3])
                             : "r"(ptx::shared_address(memory + at)));
            }
        }
#pragma unroll
        for (int i = 0; i < kProducts; ++i) {
            const uint32_t four = packed[i] ^ static_cast<uint32_t>(round);  // or the assembler converts before the loop
            const uint32_t low = to_fp16_pair(static_cast<uint16_t>(four));
            const uint32_t high = to_fp16_pair(static_cast<uint16_t>(four >> 16));
            if constexpr (kDecode) {
                ptx::mma_16x8x16<__half>(sums[i], rows, low, high);
            } else {
                kept ^= low + high;
            }
        }
    }
    __syncthreads();  // the scheduler lets old warps finish first: the block is done when all are
    const uint64_t end = clock_now();
    for (int i = 0; i < kProducts; ++i) use(sums[i], sink);
    if (kept == 0x12345678u) *sink = kept;
    if (threadIdx.x == 0) out[blockIdx.x] = end - begin;
}

template <bool kDecode>
void measure(const char* what, int warps) {
    const DeviceArray<uint64_t> sink(1);
    const double elements = 4.0 * kProducts * 32 * warps * kRounds;
    const double rate = median_of<uint64_t>(
        multiprocessors(),
        [&](uint64_t* out) { convert<kDecode><<<multiprocessors(), 32 * warps, 32768>>>(out, sink.get()); },
        [elements](uint64_t cycles) { return elements / static_cast<double>(cycles); });
    const std::string where = std::string(what) + ", " + std::to_string(warps) + " warps";
    report("fp8", where, rate, "elements/clk/SM");
    report("fp8", where + ", conversions", rate / 2.0, "lanes/clk/SM");
}

}  // namespace

void run_fp8() {
    for (const int warps : {4, 8, 12, 16}) {
        measure<false>("e4m3 to fp16", warps);
        measure<true>("16-byte loads, e4m3 to fp16 and m16n8k16", warps);
    }
}

}  // namespace microbench
