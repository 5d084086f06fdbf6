// Checks of a launch's arguments, on the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "flashcore/core/arguments.h"
#include "flashcore/core/local_arguments.h"
#include "flashcore/core/status.h"
#include "flashcore/core/tensor_map.h"
#include "flashcore/decode/abi.h"
#include "flashcore/decode/params.h"

namespace flashcore::decode {

using Arguments = FlashcoreDecodeArguments;

constexpr int64_t kMaxQueries = 16;
constexpr int64_t kMaxHeadDim = 256;
constexpr size_t kWorkspaceAlignment = 16;
constexpr int32_t kE4m3 = static_cast<int32_t>(DType::kE4m3);

inline bool has_fp8_cache(const Arguments& args) { return args.cache_dtype == kE4m3; }
inline bool is_local(const Arguments& args) { return args.local.enabled != 0; }
inline bool is_packed(const Arguments& args) { return args.total_q > 0; }
inline bool is_power_of_two(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

// TMA loads pages that whole groups of keys divide. Keys of other pages are copied one by one.
inline bool is_gathered(const Arguments& args) {
    return args.page_size > 0 && (args.page_size < kMmaKeys || !is_power_of_two(args.page_size));
}
inline DType cache_type(const Arguments& args) { return static_cast<DType>(has_fp8_cache(args) ? kE4m3 : args.dtype); }
inline DType new_type(const Arguments& args) { return static_cast<DType>(has_fp8_cache(args) ? args.new_dtype : args.dtype); }

inline int64_t capacity(const Arguments& args) { return args.page_size > 0 ? args.table_width * args.page_size : args.capacity; }

inline Status check_packed(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_extent("total_q", args.total_q, 0));
    const bool plain = !has_fp8_cache(args) && args.new_keys == 0 && args.splits == 0 && args.deterministic == 0;
    if (!is_packed(args) || plain) return Status::kOk;
    return fail(Status::kInvalidArgument, "total_q: packed queries need a cache of 16 bits, no new keys and no chosen splits");
}

inline Status check_cache(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_extent("page_size", args.page_size, 0));
    if (is_gathered(args) && !is_packed(args)) {
        return fail(Status::kInvalidArgument, "page_size: must be 0 (contiguous), or a power of two from 16 on, unless queries are packed, but is %d",
                    args.page_size);
    }
    if (args.page_size > 0) {
        FLASHCORE_RETURN_IF_FAILED(check_extent("table_width", args.table_width, 0, kExtentLimit / args.page_size));
        FLASHCORE_RETURN_IF_FAILED(check_extent("pages", args.pages, capacity(args) > 0 ? 1 : 0));
    } else {
        FLASHCORE_RETURN_IF_FAILED(check_extent("capacity", args.capacity, 0));
    }
    if (args.new_keys < 0 || args.new_keys > capacity(args)) {
        return fail(Status::kInvalidArgument, "new_keys: must be from 0 to %lld, the most keys of a sequence, but is %lld",
                    static_cast<long long>(capacity(args)), static_cast<long long>(args.new_keys));
    }
    return Status::kOk;
}

inline Status check_types(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_local(args.local, args.sinks));
    if (is_local(args) && has_fp8_cache(args)) {
        return fail(Status::kInvalidArgument, "window, softcap, sinks: need a cache of 16 bits, but it is of E4M3");
    }
    if (args.dtype == kE4m3 && !has_fp8_cache(args)) {
        return fail(Status::kInvalidArgument, "dtype: E4M3 queries need caches of E4M3");
    }
    if (has_fp8_cache(args) && (args.new_dtype < 0 || args.new_dtype > kE4m3)) {
        return fail(Status::kInvalidArgument, "new_dtype: must be 0 (fp16), 1 (bf16) or 2 (E4M3), but is %d", args.new_dtype);
    }
    return Status::kOk;
}

// The head dimension of the kernel for another one: the next larger.
inline int64_t kernel_head_dim(int64_t head_dim) { return head_dim <= 64 ? 64 : head_dim <= 128 ? 128 : kMaxHeadDim; }

// Rows are loaded in units of 16 bytes.
inline Status check_head_dim(const Arguments& args) {
    const int64_t step = kTensorAlignment / bytes_of(cache_type(args));
    if (args.head_dim > 0 && args.head_dim % step == 0 && args.head_dim <= kMaxHeadDim) return Status::kOk;
    return fail(Status::kInvalidArgument, "head_dim: must be a multiple of %lld up to %lld%s, but is %lld",
                static_cast<long long>(step), static_cast<long long>(kMaxHeadDim),
                has_fp8_cache(args) ? " over caches of E4M3" : "", static_cast<long long>(args.head_dim));
}

inline Status check_numbers(const Arguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_types(args));
    Arguments numbers = args;
    if (args.dtype == kE4m3) numbers.dtype = static_cast<int32_t>(DType::kBf16);  // as the output
    FLASHCORE_RETURN_IF_FAILED(check_attention(numbers));
    FLASHCORE_RETURN_IF_FAILED(check_head_dim(args));
    FLASHCORE_RETURN_IF_FAILED(check_extent("sq", args.sq, 1, kMaxQueries));
    FLASHCORE_RETURN_IF_FAILED(check_packed(args));
    FLASHCORE_RETURN_IF_FAILED(check_cache(args));
    return check_count("splits", args.splits);
}

inline Status check_pointers(const Arguments& args, int64_t workspace_bytes) {
    if (args.page_size > 0 && capacity(args) > 0) FLASHCORE_RETURN_IF_FAILED(check_pointer("page_table", args.page_table));
    FLASHCORE_RETURN_IF_FAILED(check_pointer("workspace", args.workspace, kWorkspaceAlignment));
    if (args.workspace_bytes < workspace_bytes) {
        return fail(Status::kInvalidArgument, "workspace_bytes: must be at least %lld, but is %lld",
                    static_cast<long long>(workspace_bytes), static_cast<long long>(args.workspace_bytes));
    }
    const auto rows = [&](const char* name, const FlashcoreOperand& operand, int64_t length, int64_t heads, int bytes) {
        return check_tensor({name,
                             operand.data,
                             {args.head_dim, length, heads, is_packed(args) ? 1 : args.batch},
                             {operand.sequence_stride * bytes, operand.head_stride * bytes, operand.batch_stride * bytes},
                             {}});
    };
    if (is_packed(args)) FLASHCORE_RETURN_IF_FAILED(check_pointer("cu_seqlens_q", args.cu_seqlens_q));
    const int64_t queries = is_packed(args) ? args.total_q : args.sq;
    FLASHCORE_RETURN_IF_FAILED(rows("q", args.q, queries, args.heads, bytes_of(static_cast<DType>(args.dtype))));
    FLASHCORE_RETURN_IF_FAILED(rows("out", args.out, queries, args.heads, kBytesPerElement));
    if (args.new_keys == 0) return Status::kOk;
    const int bytes = bytes_of(new_type(args));
    FLASHCORE_RETURN_IF_FAILED(rows("k_new", args.k_new, args.new_keys, args.kv_heads, bytes));
    return rows("v_new", args.v_new, args.new_keys, args.kv_heads, bytes);
}

// Reads lengths and page table back and checks them. Only the device has them otherwise.
inline Status check_tables(const Arguments& args) {
    const auto stream = static_cast<cudaStream_t>(args.stream);
    std::vector<int32_t> lengths(static_cast<size_t>(args.batch), static_cast<int32_t>(capacity(args) - args.new_keys));
    if (args.lengths != nullptr) {
        FLASHCORE_RETURN_IF_FAILED(
            check(cudaMemcpyAsync(lengths.data(), args.lengths, lengths.size() * sizeof(int32_t), cudaMemcpyDeviceToHost, stream),
                  "lengths"));
    }
    std::vector<int32_t> table(args.page_size > 0 ? static_cast<size_t>(args.batch * args.table_width) : 0);
    if (!table.empty()) {
        const auto width = static_cast<size_t>(args.table_width) * sizeof(int32_t);
        FLASHCORE_RETURN_IF_FAILED(check(
            cudaMemcpy2DAsync(table.data(), width, args.page_table, static_cast<size_t>(args.table_stride) * sizeof(int32_t),
                              width, static_cast<size_t>(args.batch), cudaMemcpyDeviceToHost, stream),
            "page_table"));
    }
    FLASHCORE_RETURN_IF_FAILED(check(cudaStreamSynchronize(stream), "check"));
    for (int64_t sequence = 0; sequence < args.batch; ++sequence) {
        const int64_t length = lengths[static_cast<size_t>(sequence)];
        if (length < 0 || length + args.new_keys > capacity(args)) {
            return fail(Status::kInvalidArgument,
                        "lengths: sequence %lld has %lld keys and %lld new ones, but the cache holds at most %lld",
                        static_cast<long long>(sequence), static_cast<long long>(length), static_cast<long long>(args.new_keys),
                        static_cast<long long>(capacity(args)));
        }
        for (int64_t slot = 0; !table.empty() && slot * args.page_size < length + args.new_keys; ++slot) {
            const int32_t page = table[static_cast<size_t>(sequence * args.table_width + slot)];
            if (page >= 0 && page < args.pages) continue;
            return fail(Status::kInvalidArgument, "page_table: entry %lld of sequence %lld is %d, but the pool has %lld pages",
                        static_cast<long long>(slot), static_cast<long long>(sequence), page, static_cast<long long>(args.pages));
        }
    }
    return Status::kOk;
}

}  // namespace flashcore::decode
