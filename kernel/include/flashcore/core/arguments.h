// Checks of launcher arguments. Each error message begins with the argument's name. Host code.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "flashcore/core/dtype.h"
#include "flashcore/core/status.h"

namespace flashcore {

constexpr int64_t kExtentLimit = int64_t{1} << 30;  // of any dimension, so that row numbers do not overflow an int

inline Status check_extent(const char* name, int64_t value, int64_t minimum, int64_t maximum = kExtentLimit) {
    if (value >= minimum && value <= maximum) return Status::kOk;
    return fail(Status::kInvalidArgument, "%s: must be from %lld to %lld, but is %lld", name, static_cast<long long>(minimum),
                static_cast<long long>(maximum), static_cast<long long>(value));
}

inline Status check_count(const char* name, int64_t value) {
    if (value >= 0) return Status::kOk;
    return fail(Status::kInvalidArgument, "%s: must not be negative, but is %lld", name, static_cast<long long>(value));
}

inline Status check_aligned(const char* name, const void* pointer, size_t alignment) {
    const size_t past = reinterpret_cast<uintptr_t>(pointer) % alignment;
    if (past == 0) return Status::kOk;
    return fail(Status::kInvalidArgument, "%s: must be aligned to %zu bytes, but is %zu bytes past a multiple", name, alignment,
                past);
}

inline Status check_pointer(const char* name, const void* pointer, size_t alignment = 1) {
    if (pointer != nullptr) return check_aligned(name, pointer, alignment);
    return fail(Status::kInvalidArgument, "%s: must not be a null pointer", name);
}

// The checks that every attention launcher makes.
template <class Arguments>
Status check_attention(const Arguments& args) {
    if (args.dtype != static_cast<int>(DType::kFp16) && args.dtype != static_cast<int>(DType::kBf16)) {
        return fail(Status::kInvalidArgument, "dtype: must be 0 (fp16) or 1 (bf16), but is %d", args.dtype);
    }
    FLASHCORE_RETURN_IF_FAILED(check_extent("batch", args.batch, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("heads", args.heads, 0));
    FLASHCORE_RETURN_IF_FAILED(check_extent("kv_heads", args.kv_heads, args.heads == 0 ? 0 : 1));
    if (args.kv_heads > 0 && args.heads % args.kv_heads != 0) {
        return fail(Status::kInvalidArgument, "heads: must be a multiple of kv_heads (%lld), but is %lld",
                    static_cast<long long>(args.kv_heads), static_cast<long long>(args.heads));
    }
    if (!std::isfinite(args.scale)) {
        return fail(Status::kInvalidArgument, "scale: must be finite, but is %g", static_cast<double>(args.scale));
    }
    return check_count("max_ctas", args.max_ctas);
}

// Calls a launcher or a query function after it has checked that the arguments are of this ABI version.
template <class Arguments, class... Results>
Status call(Status (*function)(const Arguments&, Results&...), const Arguments* arguments, Results&... results) {
    FLASHCORE_RETURN_IF_FAILED(check_pointer("arguments", arguments));
    if (arguments->size == sizeof(Arguments)) return function(*arguments, results...);
    return fail(Status::kInvalidArgument, "size: must be %zu, but is %u. Use a library and a binding of the same version",
                sizeof(Arguments), arguments->size);
}

}  // namespace flashcore
