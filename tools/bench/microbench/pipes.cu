// The rates of a multiprocessor's pipes, alone and together: tensor cores, exponentials, issue.
#include "flashcore/ptx/wgmma.cuh"
#include "flashcore/sm90/smem_descriptor.cuh"
#include "scalar.cuh"

namespace microbench {
namespace {

namespace sm90 = flashcore::sm90;

constexpr int kDepth = 64;  // K of one round of mmas: four wgmma
constexpr int kRowsBytes = 64 * kDepth * 2;  // bytes of a warpgroup's A
constexpr int kSharedBytes = 3 * kRowsBytes + 256 * kDepth * 2;
constexpr int kRounds = 500;
constexpr int kElements = 64;  // elements of scalar work per thread and round

enum class Operands { kShared, kRegistersValues };  // where A is. In kRegistersValues B is contiguous along N

template <int kRoles>
struct Works {
    struct {
        uint64_t units;
        uint64_t cycles;
    } role[kRoles];
};

template <int kN, Operands kOperands>
__device__ __forceinline__ void products(uint8_t* memory, int warpgroup, int rounds, uint64_t* out) {
    const uint64_t a = sm90::k_major_descriptor(memory + warpgroup * kRowsBytes);
    uint8_t* shared_b = memory + 3 * kRowsBytes;
    const uint64_t b = kOperands == Operands::kRegistersValues ? sm90::mn_major_descriptor(shared_b, kDepth) : sm90::k_major_descriptor(shared_b);
    using Product = ptx::Wgmma<__half, kN>;
    float sums[kN / 2] = {};
    uint32_t rows[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) rows[i] = reinterpret_cast<uint32_t*>(memory)[threadIdx.x * 16 + i];
    ptx::warpgroup_fence_operand(rows);
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < kDepth / sm90::ElementTraits<__half>::kMmaK; ++step) {
            if constexpr (kOperands == Operands::kShared) {
                Product::shared(sums, a + sm90::k_major_offset(step, 64), b + sm90::k_major_offset(step, kN), 1);
            } else {
                Product::template registers<ptx::Major::kMn>(sums, rows + 4 * step, b + sm90::mn_major_offset<__half>(step), 1);
            }
        }
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>();
    }
    ptx::wgmma_wait<0>();
    ptx::warpgroup_fence_operand(sums);
    use(sums, out);
}

// kTensor warpgroups multiply for `rounds`. kScalar warpgroups compute until the first of them is done, or for `rounds`.
template <int kN, Operands kOperands, int kTensor, Scalar kWork, int kScalar, int kChains = 16>
__global__ void __launch_bounds__((kTensor + kScalar) * kWarpgroup, 1)
    pipes(Works<kTensor + kScalar>* out, int rounds, float scale) {
    extern __shared__ __align__(1024) uint8_t memory[];
    __shared__ volatile int finished;
    if (threadIdx.x == 0) finished = 0;
    fill_with_numbers(memory, kSharedBytes);
    const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / kWarpgroup, 0);
    uint64_t units = rounds;
    const uint64_t begin = clock_now();
    if (warpgroup < kTensor) {
        products<kN, kOperands>(memory, warpgroup, rounds, &out->role[0].units);
        finished = 1;
    } else {
        float values[kChains];
#pragma unroll
        for (int i = 0; i < kChains; ++i) values[i] = reinterpret_cast<float*>(memory)[i] * 1e-6f;
        Rows rows(scale);
        units = 0;
        do {
            scalar_work<kWork, kElements, kChains>(values, scale, rows);
            ++units;
        } while (kTensor > 0 ? finished == 0 : units < static_cast<uint64_t>(rounds));
        use(values, &out->role[0].units);
        use(rows, &out->role[0].units);
    }
    const uint64_t end = clock_now();
    if (threadIdx.x % kWarpgroup == 0) out[blockIdx.x].role[warpgroup] = {units, end - begin};
}

template <int kN, Operands kOperands, int kTensor, Scalar kWork, int kScalar, int kChains = 16>
void measure(const char* group, const std::string& what) {
    constexpr int kRoles = kTensor + kScalar;
    auto* kernel = pipes<kN, kOperands, kTensor, kWork, kScalar, kChains>;
    allow_shared(kernel, kSharedBytes);
    const auto rate = [kernel](int first, int end, double units) {
        return median_of<Works<kRoles>>(
            multiprocessors(),
            [kernel](Works<kRoles>* out) {
                kernel<<<multiprocessors(), kRoles * kWarpgroup, kSharedBytes>>>(out, kRounds, 0.1f);
            },
            [first, end, units](const Works<kRoles>& works) {
                double sum = 0.0;
                for (int i = first; i < end; ++i) sum += units * works.role[i].units / works.role[i].cycles;
                return sum;
            });
    };
    if (kTensor > 0) report(group, what + " products", rate(0, kTensor, 2.0 * 64 * kN * kDepth), "FLOP/clk/SM");
    if (kScalar > 0) report(group, what + " scalar", rate(kTensor, kRoles, kElements * kWarpgroup), "elements/clk/SM");
}

template <int kN, Operands kOperands>
void shape(const std::string& what) {
    measure<kN, kOperands, 1, Scalar::kNone, 0>("wgmma", what + ", 1 warpgroup");
    measure<kN, kOperands, 2, Scalar::kNone, 0>("wgmma", what + ", 2 warpgroups");
}

template <Scalar kWork, int kChains = 16>
void beside(const std::string& what) {
    measure<64, Operands::kShared, 0, kWork, 1, kChains>("scalar", what + ", 1 warpgroup alone");
    measure<64, Operands::kShared, 0, kWork, 2, kChains>("scalar", what + ", 2 warpgroups alone");
    measure<128, Operands::kShared, 1, kWork, 1, kChains>("beside", what + ", 1 beside 1 x n128 shared");
    measure<128, Operands::kShared, 1, kWork, 2, kChains>("beside", what + ", 2 beside 1 x n128 shared");
}

}  // namespace

void run_pipes() {
    shape<64, Operands::kRegistersValues>("m64n64k16 from registers, values");
    shape<128, Operands::kShared>("m64n128k16 from shared memory");
    shape<256, Operands::kRegistersValues>("m64n256k16 from registers, values");
    beside<Scalar::kExp2>("exp2");
    beside<Scalar::kFma, 4>("multiply-add in 4 chains");
    beside<Scalar::kAdd, 2>("add in 2 chains");
    beside<Scalar::kMax, 2>("max in 2 chains");
    beside<Scalar::kPack, 2>("pack in 2 chains");
    beside<Scalar::kSoftmax>("max, multiply-add, exp2, add, half a pack");
}

}  // namespace microbench
