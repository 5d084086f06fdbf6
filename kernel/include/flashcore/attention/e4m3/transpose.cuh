// Transposes and permutes values of any number of 64 columns for E4M3 (attention/value_order.h). One CTA per 128 keys and kColumns.
// In a varlen batch the first CTA also lays out the batch for attention, so that no other launch is needed.
//
// A thread takes words of four neighbouring columns of 16 keys, transposes four 4 x 4 blocks of bytes, and writes 16 keys of four rows.
#pragma once

#include "flashcore/attention/e4m3/forward_params.h"
#include "flashcore/attention/e4m3/transpose_params.h"
#include "flashcore/attention/fp8.cuh"
#include "flashcore/attention/varlen_prepare.cuh"
#include "flashcore/attention/value_order.h"
#include "flashcore/core/element.cuh"
#include "flashcore/core/launch.cuh"
#include "flashcore/ptx/math.cuh"

namespace flashcore::attention::e4m3 {

constexpr int kGroupKeys = 16;  // of a thread

// Words of a tile: four columns each, and one more per key.
template <int kColumns>
constexpr int kTileWords = kValueKeys * (kColumns / 4 + 1);

// Words of four columns in shared memory. Their places depend on the key, so that the threads of a warp read different banks.
template <int kWords>
__device__ __forceinline__ int word_place(int key, int word) {
    return key * (kWords + 1) + (word ^ key / (2 * kGroupKeys) * 4);
}

// Byte i of word j becomes byte j of word i.
__device__ __forceinline__ void transpose_bytes(uint32_t (&words)[4]) {
    const uint32_t low01 = __byte_perm(words[0], words[1], 0x5140);
    const uint32_t low23 = __byte_perm(words[2], words[3], 0x5140);
    const uint32_t high01 = __byte_perm(words[0], words[1], 0x7362);
    const uint32_t high23 = __byte_perm(words[2], words[3], 0x7362);
    words[0] = __byte_perm(low01, low23, 0x5410);
    words[1] = __byte_perm(low01, low23, 0x7632);
    words[2] = __byte_perm(high01, high23, 0x5410);
    words[3] = __byte_perm(high01, high23, 0x7632);
}

template <class Source>
__device__ __forceinline__ uint32_t load_four(const Source* row, float factor) {
    if constexpr (std::is_same_v<Source, E4m3>) {
        return *reinterpret_cast<const uint32_t*>(row);
    } else {
        const uint2 pairs = *reinterpret_cast<const uint2*>(row);
        const Source* x = reinterpret_cast<const Source*>(&pairs);
        return ptx::pack_e4m3(__fdiv_rn(static_cast<float>(x[0]), factor), __fdiv_rn(static_cast<float>(x[1]), factor),
                              __fdiv_rn(static_cast<float>(x[2]), factor), __fdiv_rn(static_cast<float>(x[3]), factor));
    }
}

// The rows of a block's keys, from `first` on. Those from `end` on are not of its sequence.
struct KeyRows {
    int first;
    int end;
};

// In a varlen batch a block belongs to the last sequence whose first block does not come after it. Each lane of a warp looks at one
// sequence, then at one of those between two lanes.
__device__ __forceinline__ KeyRows find_rows(const PackedBatch& packed, int block) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
    int sequence = 0;
    for (int count = packed.batch; count > 1;) {
        const int step = (count + kWarpThreads - 1) / kWarpThreads;
        const int offset = lane * step;
        bool begins = false;
        if (offset < count) {
            const int first_row = clamp(__ldg(packed.k.cu_seqlens + sequence + offset), 0, packed.k.total);
            begins = first_value_block(first_row, sequence + offset) <= block;
        }
        const int passed = max(__popc(__ballot_sync(kFullWarpMask, begins)) - 1, 0) * step;
        sequence += passed;
        count = min(step, count - passed);
    }
    const SequenceRange range = sequence_range(packed.k, sequence);
    const int first_row = range.end - range.length;
    const int first_key = (block - first_value_block(first_row, sequence)) * kValueKeys;
    return {first_row + first_key, first_key < 0 ? 0 : range.end};
}

// `tile` has the block's keys, as words of four columns.
template <class Source, int kThreads, int kColumns>
__device__ __forceinline__ void transpose_block(const TransposeParams& params, uint32_t (&tile)[kTileWords<kColumns>]) {
    constexpr int kWords = kColumns / 4;
    constexpr int kGroups = kValueKeys / kGroupKeys;
    static_assert(kThreads == kWords * kGroups && kWords == 16, "a thread per word and group of keys");
    const int parts = params.head_dim / kColumns;
    const int part = static_cast<int>(blockIdx.x) % parts;
    const int number = static_cast<int>(blockIdx.x) / parts;
    const int block = number % params.blocks;
    const int sequence = number / params.blocks;
    const int batch = sequence / params.kv_heads;
    const int head = sequence - batch * params.kv_heads;
    KeyRows rows_of_keys{block * kValueKeys, params.sk};
    if constexpr (std::is_same_v<Source, E4m3>) {
        if (params.packed.sequence_infos != nullptr) {
            rows_of_keys = find_rows(params.packed, block);
            if (rows_of_keys.first >= rows_of_keys.end) return;  // the sequence has no such block
        }
    }
    const float factor = std::is_same_v<Source, E4m3> ? 1.0f : descale(params.v_descale, batch, head);
    const Source* v =
        static_cast<const Source*>(params.v) + batch * params.batch_stride + head * params.head_stride + part * kColumns;
#pragma unroll
    for (int i = threadIdx.x; i < kValueKeys * kWords; i += kThreads) {
        const int key = i / kWords;
        const int word = i % kWords;
        const int position = rows_of_keys.first + key;
        tile[word_place<kWords>(key, word)] =
            position < rows_of_keys.end ? load_four(v + position * params.sequence_stride + 4 * word, factor) : 0u;
    }
    __syncthreads();
    const int group = static_cast<int>(threadIdx.x) % kGroups;
    const int word = static_cast<int>(threadIdx.x) / kGroups;
    uint32_t rows[4][kGroupKeys / 4];
#pragma unroll
    for (int place = 0; place < kGroupKeys; place += 4) {
        uint32_t words[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) words[j] = tile[word_place<kWords>(group * kGroupKeys + value_key(place + j), word)];
        transpose_bytes(words);
#pragma unroll
        for (int i = 0; i < 4; ++i) rows[i][place / 4] = words[i];
    }
    const int64_t pitch = static_cast<int64_t>(params.blocks) * kValueKeys;
    uint8_t* out = params.values + (static_cast<int64_t>(sequence) * params.head_dim + part * kColumns) * pitch + block * kValueKeys +
                   group * kGroupKeys;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        *reinterpret_cast<uint4*>(out + value_row(4 * word + i) * pitch) = make_uint4(rows[i][0], rows[i][1], rows[i][2], rows[i][3]);
    }
}

// The entry function. It chooses once between the types of values. `<` makes the compiler place E4M3 first: attention runs it.
template <int kThreads, int kColumns>
__device__ __forceinline__ void transpose_values(const TransposeParams& params) {
    __shared__ uint32_t tile[kTileWords<kColumns>];
    __shared__ PrepareStorage<kThreads> storage;
    if (params.source < DType::kE4m3) {
        if (params.source == DType::kBf16) return transpose_block<OperandOf<DType::kBf16>, kThreads, kColumns>(params, tile);
        return transpose_block<OperandOf<DType::kFp16>, kThreads, kColumns>(params, tile);
    }
    if (params.packed.sequence_infos != nullptr && blockIdx.x == 0) prepare<kThreads, false>(params.packed, storage);
    transpose_block<E4m3, kThreads, kColumns>(params, tile);
}

}  // namespace flashcore::attention::e4m3
