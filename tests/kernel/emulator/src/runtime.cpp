// The CUDA runtime and driver as far as the launchers use them, and the emulator's own C interface.
#include <dlfcn.h>
#include <xmmintrin.h>

#include <cstring>
#include <unordered_map>

#include "cuda.h"
#include "cuda_runtime.h"
#include "state.h"

namespace emulator {

std::string run_grid_and_replays(const Launch& launch);

namespace {
std::string last_violation;
std::unordered_map<const void*, int> allowed_bytes;
constexpr unsigned kFlushDenormals = 0x8040;  // of inputs and results, as --use_fast_math
}  // namespace

cudaError_t allow_shared_bytes(const void* kernel, int bytes) {
    if (bytes > static_cast<int>(kSharedLimit)) return cudaErrorInvalidValue;
    allowed_bytes[kernel] = bytes;
    return cudaSuccess;
}

cudaError_t run(const Launch& launch) {
    constexpr size_t kWithoutOptIn = 48 * 1024;
    const auto allowed = allowed_bytes.find(launch.kernel);
    const size_t limit = allowed == allowed_bytes.end() ? kWithoutOptIn : static_cast<size_t>(allowed->second);
    if (launch.shared_bytes > limit || launch.ctas == 0 || launch.threads == 0 || launch.threads > 1024) return cudaErrorInvalidValue;
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | kFlushDenormals);
    last_violation = run_grid_and_replays(launch);
    _mm_setcsr(before);
    if (last_violation.empty()) return cudaSuccess;
    Dl_info info{};
    dladdr(launch.kernel, &info);
    last_violation = std::string(info.dli_sname != nullptr ? info.dli_sname : "kernel") + ": " + last_violation;
    return cudaErrorLaunchFailure;
}

}  // namespace emulator

extern "C" {

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data, const cuuint64_t* extent,
                                const cuuint64_t* stride, const cuuint32_t* box, const cuuint32_t* element_stride,
                                CUtensorMapInterleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    constexpr uint32_t kBytes[] = {1, 2, 4, 4, 2, 2};
    constexpr uint32_t kWidths[] = {256 * 16, 32, 64, 128};
    const uint32_t bytes = kBytes[type];
    if (rank < 3 || rank > 5 || reinterpret_cast<uintptr_t>(data) % 16 != 0 || reinterpret_cast<uintptr_t>(map) % 64 != 0) return CUDA_ERROR_INVALID_VALUE;
    if (box[0] * bytes % 16 != 0 || box[0] * bytes > kWidths[swizzle]) return CUDA_ERROR_INVALID_VALUE;
    *map = {};
    for (cuuint32_t i = 0; i < rank; ++i) {
        if (box[i] == 0 || box[i] > 256 || element_stride[i] != 1 || extent[i] == 0 || extent[i] > uint64_t{1} << 32) return CUDA_ERROR_INVALID_VALUE;
        map->extent[i] = static_cast<uint32_t>(extent[i] - 1);
        map->box[i] = static_cast<uint16_t>(box[i]);
    }
    for (cuuint32_t i = 0; i + 1 < rank; ++i) {
        if (stride[i] % 16 != 0 || stride[i] >= uint64_t{1} << 40) return CUDA_ERROR_INVALID_VALUE;
        map->stride[i] = stride[i];
    }
    map->magic = emulator::kMapMagic;
    map->rank = rank;
    map->element_bytes = bytes;
    map->swizzle = swizzle;
    map->data = static_cast<char*>(data);
    return CUDA_SUCCESS;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    if (device != 0) return cudaErrorInvalidDevice;
    *value = attribute == cudaDevAttrMultiProcessorCount ? emulator::settings.multiprocessors
             : attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorLaunchFailure ? emulator::last_violation.c_str() : "refused";
}
const char* cudaGetErrorName(cudaError_t error) { return error == cudaErrorLaunchFailure ? "violation" : "cudaErrorInvalidValue"; }
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** address, unsigned, int, cudaDriverEntryPointQueryResult* found) {
    *address = dlsym(RTLD_DEFAULT, name);
    if (std::strcmp(name, "cuTensorMapEncodeTiled") == 0) *address = reinterpret_cast<void*>(cuTensorMapEncodeTiled);
    *found = *address != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
    return std::memcpy(to, from, bytes), cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t step, const void* from, std::size_t pitch, std::size_t width,
                              std::size_t rows, cudaMemcpyKind, cudaStream_t) {
    for (std::size_t i = 0; i < rows; ++i)
        std::memcpy(static_cast<char*>(to) + i * step, static_cast<const char*>(from) + i * pitch, width);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
    std::memset(to, value, bytes);
    emulator::mark_global(to, bytes);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

const char* emulator_violation() { return emulator::last_violation.c_str(); }
void emulator_configure(uint64_t seed, int multiprocessors, int late, int races, int independent_lanes) {
    emulator::settings.seed = seed;
    emulator::settings.multiprocessors = multiprocessors;
    emulator::settings.late = late != 0;
    emulator::settings.races = races != 0;
    emulator::settings.independent_lanes = independent_lanes != 0;
}
void emulator_replay(int replays) { emulator::settings.replays = replays != 0; }
}
