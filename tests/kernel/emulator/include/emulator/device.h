// The language of device code: qualifiers, built-in variables, vector types and functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "emulator/operand.h"

#define __host__
#define __device__
#define __global__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
// __shared__ is left to emulator_rewrite.py.

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct float2 { alignas(8) float x; float y; };
struct alignas(16) float4 { float x, y, z, w; };
struct int2 { alignas(8) int x; int y; };
struct alignas(16) int4 { int x, y, z, w; };
struct uint2 { alignas(8) unsigned x; unsigned y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace emulator {

struct Coordinates {
    dim3 thread, cta, threads, ctas;
};
const Coordinates& coordinates();

enum class Exchange { kIndex, kXor, kUp, kDown, kAll, kAny, kBallot, kSync };
uint64_t exchange(Exchange kind, unsigned mask, uint64_t value, int argument);
void sync_threads();
enum class Atomic { kAdd, kAddFloat, kMaxSigned, kMax, kMin, kOr, kAnd, kExchange, kIncrement, kCas };
uint32_t atomic(Atomic kind, void* address, uint32_t value, uint32_t compared = 0);
void thread_fence();
uint32_t shared_offset(const void* pointer);
[[noreturn]] void trap();

template <class T>
T shuffle(Exchange kind, unsigned mask, T value, int argument) {
    static_assert(sizeof(T) <= 8, "a shuffle moves one register");
    const uint64_t bits = exchange(kind, mask, bits_of(value), argument);
    T result;
    __builtin_memcpy(&result, &bits, sizeof(T));
    return result;
}

}  // namespace emulator

// A built-in variable. Its members become numbers where they are read.
template <dim3 emulator::Coordinates::*kWhich>
struct BuiltIn {
    template <unsigned dim3::*kMember>
    struct Member {
        __attribute__((no_sanitize("thread"))) operator unsigned() const { return (emulator::coordinates().*kWhich).*kMember; }
    };
    Member<&dim3::x> x;
    Member<&dim3::y> y;
    Member<&dim3::z> z;
};
inline const BuiltIn<&emulator::Coordinates::thread> threadIdx{};
inline const BuiltIn<&emulator::Coordinates::cta> blockIdx{};
inline const BuiltIn<&emulator::Coordinates::threads> blockDim{};
inline const BuiltIn<&emulator::Coordinates::ctas> gridDim{};

using std::max;
using std::min;

inline void __syncthreads() { emulator::sync_threads(); }
inline void __syncwarp(unsigned mask = ~0u) { emulator::exchange(emulator::Exchange::kSync, mask, 0, 0); }
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int = 32) { return emulator::shuffle(emulator::Exchange::kIndex, mask, value, lane); }
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int = 32) { return emulator::shuffle(emulator::Exchange::kXor, mask, value, bits); }
template <class T>
T __shfl_up_sync(unsigned mask, T value, int lanes, int = 32) { return emulator::shuffle(emulator::Exchange::kUp, mask, value, lanes); }
template <class T>
T __shfl_down_sync(unsigned mask, T value, int lanes, int = 32) { return emulator::shuffle(emulator::Exchange::kDown, mask, value, lanes); }
inline unsigned __reduce_max_sync(unsigned mask, unsigned value) {
    for (int bits = 1; bits < 32; bits *= 2) {
        const unsigned other = __shfl_xor_sync(mask, value, bits);
        value = other > value ? other : value;
    }
    return value;
}
inline int __all_sync(unsigned mask, int holds) { return emulator::exchange(emulator::Exchange::kAll, mask, holds != 0, 0) != 0; }
inline int __any_sync(unsigned mask, int holds) { return emulator::exchange(emulator::Exchange::kAny, mask, holds != 0, 0) != 0; }
inline unsigned __ballot_sync(unsigned mask, int holds) {
    return static_cast<unsigned>(emulator::exchange(emulator::Exchange::kBallot, mask, holds != 0, 0));
}

inline unsigned atomicAdd(unsigned* address, unsigned value) { return emulator::atomic(emulator::Atomic::kAdd, address, value); }
inline int atomicAdd(int* address, int value) { return static_cast<int>(emulator::atomic(emulator::Atomic::kAdd, address, static_cast<unsigned>(value))); }
inline float atomicAdd(float* address, float value) {
    return __builtin_bit_cast(float, emulator::atomic(emulator::Atomic::kAddFloat, address, __builtin_bit_cast(uint32_t, value)));
}
inline int atomicMax(int* address, int value) { return static_cast<int>(emulator::atomic(emulator::Atomic::kMaxSigned, address, static_cast<unsigned>(value))); }
inline unsigned atomicMax(unsigned* address, unsigned value) { return emulator::atomic(emulator::Atomic::kMax, address, value); }
inline unsigned atomicMin(unsigned* address, unsigned value) { return emulator::atomic(emulator::Atomic::kMin, address, value); }
inline unsigned atomicOr(unsigned* address, unsigned value) { return emulator::atomic(emulator::Atomic::kOr, address, value); }
inline unsigned atomicAnd(unsigned* address, unsigned value) { return emulator::atomic(emulator::Atomic::kAnd, address, value); }
inline unsigned atomicExch(unsigned* address, unsigned value) { return emulator::atomic(emulator::Atomic::kExchange, address, value); }
inline unsigned atomicCAS(unsigned* address, unsigned compared, unsigned value) {
    return emulator::atomic(emulator::Atomic::kCas, address, value, compared);
}
inline void __threadfence() { emulator::thread_fence(); }
inline void __threadfence_block() { emulator::thread_fence(); }
inline void __nanosleep(unsigned) {}
[[noreturn]] inline void __trap() { emulator::trap(); }
inline uint64_t __cvta_generic_to_shared(const void* pointer) { return emulator::shared_offset(pointer); }

template <class T>
T __ldg(const T* address) { return *address; }
template <class T>
T __ldcg(const T* address) { return *address; }
template <class T>
T __ldcs(const T* address) { return *address; }
template <class T>
void __stcg(T* address, T value) { *address = value; }
template <class T>
void __stcs(T* address, T value) { *address = value; }

inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return std::fabs(b) > 0x1p126f && std::isfinite(b) ? 0.0f : a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __logf(float x) { return std::log2(x) * 0.693147180559945309f; }
inline float __expf(float x) { return std::exp2(x * 1.44269504f); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __umulhi(unsigned a, unsigned b) { return static_cast<int>(static_cast<uint64_t>(a) * b >> 32); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const uint64_t bytes = static_cast<uint64_t>(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned choice = selector >> 4 * i & 0xF;
        unsigned byte = static_cast<unsigned>(bytes >> 8 * (choice & 7)) & 0xFF;
        if ((choice & 8) != 0) byte = (byte & 0x80) != 0 ? 0xFF : 0;
        result |= byte << 8 * i;
    }
    return result;
}
