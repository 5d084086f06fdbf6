// The rates of a multiprocessor's pipes, alone and together: tensor cores, exponentials, issue.
#include <cuda_fp16.h>

#include "flashcore/sm90/smem_descriptor.cuh"
#include "harness.cuh"
#include "scalar.cuh"
#include "suite.h"
#include "wgmma_shapes.cuh"

namespace microbench {
namespace {

namespace sm90 = flashcore::sm90;

constexpr int kDepth = 64;                 // K of one round of mmas: four wgmma
constexpr int kRowsBytes = 64 * kDepth * 2;  // bytes of a warpgroup's A
constexpr int kSharedBytes = 3 * kRowsBytes + 256 * kDepth * 2;
constexpr int kRounds = 500;
constexpr int kElements = 64;  // elements of scalar work per thread and round

enum class Operands { kShared, kRegisters, kRegistersValues };  // where A is. In kRegistersValues B is contiguous along N

struct Work {
    uint64_t units;
    uint64_t cycles;
};

template <int kN, Operands kOperands>
__device__ __forceinline__ void products(uint8_t* memory, int warpgroup, int rounds, uint64_t* out) {
    const uint64_t a = sm90::k_major_descriptor(memory + warpgroup * kRowsBytes);
    uint8_t* shared_b = memory + 3 * kRowsBytes;
    const uint64_t b = kOperands == Operands::kRegistersValues ? sm90::mn_major_descriptor(shared_b, kDepth) : sm90::k_major_descriptor(shared_b);
    float sums[Wgmma<kN>::kRegisters] = {};
    uint32_t rows[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) rows[i] = reinterpret_cast<uint32_t*>(memory)[threadIdx.x * 16 + i];
    pin(rows);
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        fence();
#pragma unroll
        for (int step = 0; step < kDepth / sm90::ElementTraits<__half>::kMmaK; ++step) {
            if constexpr (kOperands == Operands::kShared) {
                Wgmma<kN>::shared(sums, a + sm90::k_major_offset(step, 64), b + sm90::k_major_offset(step, kN));
            } else if constexpr (kOperands == Operands::kRegisters) {
                Wgmma<kN>::template registers<0>(sums, rows + 4 * step, b + sm90::k_major_offset(step, kN));
            } else {
                Wgmma<kN>::template registers<1>(sums, rows + 4 * step, b + sm90::mn_major_offset<__half>(step));
            }
        }
        commit();
        wait<1>();
    }
    wait<0>();
    pin(sums);
    use(sums, out);
}

// kTensor warpgroups multiply for `rounds`. kScalar warpgroups compute until the first of them is done, or for `rounds`.
template <int kN, Operands kOperands, int kTensor, Scalar kWork, int kScalar, int kChains = 16>
__global__ void __launch_bounds__((kTensor + kScalar) * kWarpgroup, 1) pipes(Work* out, int rounds, float scale) {
    extern __shared__ __align__(1024) uint8_t memory[];
    __shared__ volatile int finished;
    if (threadIdx.x == 0) finished = 0;
    fill_with_numbers(memory, kSharedBytes);
    const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
    uint64_t units = rounds;
    const uint64_t begin = clock_now();
    if (warpgroup < kTensor) {
        products<kN, kOperands>(memory, warpgroup, rounds, &out->units);
        finished = 1;
    } else {
        float values[kChains];
#pragma unroll
        for (int i = 0; i < kChains; ++i) values[i] = reinterpret_cast<float*>(memory)[i] * 1e-6f;
        Rows rows;
        rows.offset[0] = scale;
        rows.offset[1] = 2.0f * scale;
        units = 0;
        do {
            scalar_work<kWork, kElements, kChains>(values, scale, rows);
            ++units;
        } while (kTensor > 0 ? finished == 0 : units < static_cast<uint64_t>(rounds));
        use(values, &out->units);
        finish(rows, [&](const float(&sinks)[5]) { use(sinks, &out->units); });
    }
    const uint64_t end = clock_now();
    if (threadIdx.x % kWarpgroup == 0) out[blockIdx.x * (kTensor + kScalar) + warpgroup] = {units, end - begin};
}

template <int kN, Operands kOperands, int kTensor, Scalar kWork, int kScalar, int kChains = 16>
void measure(const char* group, const std::string& what) {
    constexpr int kRoles = kTensor + kScalar;
    const int blocks = multiprocessors();
    DeviceArray<Work> out(static_cast<size_t>(blocks) * kRoles);
    auto* kernel = pipes<kN, kOperands, kTensor, kWork, kScalar, kChains>;
    allow_shared(kernel, kSharedBytes);
    std::vector<double> tensor;
    std::vector<double> scalar;
    for (int repetition = 0; repetition < 3; ++repetition) {
        kernel<<<blocks, kRoles * kWarpgroup, kSharedBytes>>>(out.get(), kRounds, 0.1f);
        check(cudaGetLastError(), "launch");
        const std::vector<Work> work = out.copy();
        for (int block = 0; block < blocks; ++block) {
            double rate[2] = {0.0, 0.0};
            for (int role = 0; role < kRoles; ++role) {
                const Work& one = work[static_cast<size_t>(block) * kRoles + role];
                const double units = role < kTensor ? 2.0 * 64 * kN * kDepth : kElements * kWarpgroup;
                rate[role >= kTensor] += units * static_cast<double>(one.units) / static_cast<double>(one.cycles);
            }
            tensor.push_back(rate[0]);
            scalar.push_back(rate[1]);
        }
    }
    if (kTensor > 0) report(group, what + " products", median(tensor), "FLOP/clk/SM");
    if (kScalar > 0) report(group, what + " scalar", median(scalar), "elements/clk/SM");
}

template <int kN, Operands kOperands>
void shapes(const std::string& what) {
    measure<kN, kOperands, 1, Scalar::kNone, 0>("wgmma", what + ", 1 warpgroup");
    measure<kN, kOperands, 2, Scalar::kNone, 0>("wgmma", what + ", 2 warpgroups");
    if constexpr (kN <= 176) measure<kN, kOperands, 3, Scalar::kNone, 0>("wgmma", what + ", 3 warpgroups");
}

template <Scalar kWork, int kChains = 16>
void beside(const std::string& what) {
    measure<64, Operands::kShared, 0, kWork, 1, kChains>("scalar", what + ", 1 warpgroup alone");
    measure<64, Operands::kShared, 0, kWork, 2, kChains>("scalar", what + ", 2 warpgroups alone");
    measure<128, Operands::kShared, 1, kWork, 1, kChains>("beside", what + ", 1 beside 1 x n128 shared");
    measure<128, Operands::kShared, 1, kWork, 2, kChains>("beside", what + ", 2 beside 1 x n128 shared");
    measure<64, Operands::kRegistersValues, 1, kWork, 1, kChains>("beside", what + ", 1 beside 1 x n64 registers");
    measure<64, Operands::kRegistersValues, 1, kWork, 2, kChains>("beside", what + ", 2 beside 1 x n64 registers");
    if constexpr (kWork == Scalar::kExp2 || kWork == Scalar::kSoftmax) {
        measure<64, Operands::kShared, 0, kWork, 3, kChains>("scalar", what + ", 3 warpgroups alone");
        measure<128, Operands::kShared, 2, kWork, 1, kChains>("beside", what + ", 1 beside 2 x n128 shared");
        measure<128, Operands::kRegisters, 1, kWork, 2, kChains>("beside", what + ", 2 beside 1 x n128 registers");
        measure<256, Operands::kRegistersValues, 1, kWork, 1, kChains>("beside", what + ", 1 beside 1 x n256 registers");
    }
}

}  // namespace

void run_pipes() {
    shapes<64, Operands::kShared>("m64n64k16 from shared memory");
    shapes<64, Operands::kRegistersValues>("m64n64k16 from registers, values");
    shapes<80, Operands::kShared>("m64n80k16 from shared memory");
    shapes<96, Operands::kShared>("m64n96k16 from shared memory");
    shapes<128, Operands::kShared>("m64n128k16 from shared memory");
    shapes<128, Operands::kRegisters>("m64n128k16 from registers, keys");
    shapes<128, Operands::kRegistersValues>("m64n128k16 from registers, values");
    shapes<176, Operands::kShared>("m64n176k16 from shared memory");
    shapes<256, Operands::kShared>("m64n256k16 from shared memory");
    shapes<256, Operands::kRegistersValues>("m64n256k16 from registers, values");
    beside<Scalar::kExp2>("exp2");
    beside<Scalar::kExp2, 4>("exp2 in 4 chains");
    beside<Scalar::kFma, 1>("multiply-add in 1 chain");
    beside<Scalar::kFma, 2>("multiply-add in 2 chains");
    beside<Scalar::kFma, 4>("multiply-add in 4 chains");
    beside<Scalar::kAdd, 2>("add in 2 chains");
    beside<Scalar::kMax, 2>("max in 2 chains");
    beside<Scalar::kPack, 2>("pack in 2 chains");
    beside<Scalar::kExponentiate>("multiply-add, exp2, add, half a pack");
    beside<Scalar::kSoftmax>("max, multiply-add, exp2, add, half a pack");
}

}  // namespace microbench
