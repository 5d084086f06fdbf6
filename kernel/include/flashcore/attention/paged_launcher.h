// The launcher's part for keys and values in pages, or in packed rows that are read like a page: checks, tensor maps. Host code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "flashcore/attention/launcher.h"

namespace flashcore::attention {

constexpr int64_t kColumnLimit = int64_t{1} << 31;  // coordinates of a tensor map are ints

// Most keys of a sequence.
inline int64_t capacity(const FlashcoreVarlenArguments& args) { return args.table_width * args.page_size; }

inline Status check_pages(const FlashcoreVarlenArguments& args) {
    FLASHCORE_RETURN_IF_FAILED(check_extent("page_size", args.page_size, 1));
    FLASHCORE_RETURN_IF_FAILED(check_extent("table_width", args.table_width, 0, kExtentLimit / args.page_size));
    FLASHCORE_RETURN_IF_FAILED(check_extent("pages", args.pages, capacity(args) > 0 ? 1 : 0));
    return capacity(args) > 0 ? check_pointer("page_table", args.page_table) : Status::kOk;
}

// The columns of all heads, which are one dimension of the map.
inline int64_t columns_of(const FlashcoreVarlenArguments& args, const FlashcoreOperand& operand) {
    return args.head_dim + (args.kv_heads - 1) * operand.head_stride;
}

// Row x of a page that ends at row e is row x + e - kBatchRows, as in shape_of. The columns of all heads are one dimension. The
// caller has checked the row stride.
inline Status encode_pages(const char* name, const FlashcoreOperand& operand, const FlashcoreVarlenArguments& args,
                           int box_rows, CUtensorMap& map) {
    const int64_t row = args.page_size == 1 ? kTensorAlignment : operand.sequence_stride * kBytesPerElement;
    const int64_t page = operand.batch_stride * kBytesPerElement;
    const int64_t columns = columns_of(args, operand);
    FLASHCORE_RETURN_IF_FAILED(check_tensor({name,
                                             operand.data,
                                             {args.head_dim, args.page_size, args.kv_heads, args.pages},
                                             {row, operand.head_stride * kBytesPerElement, page},
                                             {},
                                             4,
                                             {"sequence", "head", "page"}}));
    if (columns > kColumnLimit) {
        return fail(Status::kInvalidArgument, "%s: all heads must be within 2^31 elements, but have %lld", name,
                    static_cast<long long>(columns));
    }
    return encode({name,
                   operand.data,
                   {columns, kBatchRows, args.pages, args.page_size + 1, kBatchRows + 1},
                   {row, page, row, kWrapStride - row},
                   {kSwizzleAtomColumns, static_cast<uint32_t>(box_rows), 1, 1, 1},
                   kTensorRank},
                  static_cast<DType>(args.dtype), map);
}

// Whether a paged entry function reads packed rows, because there the heads of short sequences share tiles. Only the device knows
// the lengths, so the mean decides. With few tiles no heads share one. The entry functions have the same results.
inline bool reads_rows_as_page(const FlashcoreVarlenArguments& args, Problem problem, int64_t ctas) {
    if (args.page_size != 0 || problem.local || args.heads == args.kv_heads) return false;
    if (args.total_k == 0 || args.total_q > args.batch * kWarpgroupRows || args.batch * args.heads <= ctas) return false;
    if (std::max(columns_of(args, args.k), columns_of(args, args.v)) > kColumnLimit) return false;
    problem.paged = true;
    return choose_variant(kVariants, std::size(kVariants), problem) >= 0;
}

// Packed rows as a page of all sequences, without a table. A sequence's place in the table is the row where its keys end.
inline FlashcoreVarlenArguments rows_as_page(const FlashcoreVarlenArguments& args) {
    FlashcoreVarlenArguments page = args;
    page.page_size = args.total_k;
    page.pages = page.table_width = page.table_stride = 1;
    page.page_table = nullptr;
    page.k.batch_stride = page.v.batch_stride = kTensorAlignment;  // not used
    return page;
}

// Fills in what only a paged variant takes.
inline Status fill_pages(const FlashcoreVarlenArguments& args, const Config& config, PagedParams& params) {
    const auto page_size = static_cast<int>(args.page_size);
    const int box_rows = args.table_width == 1 ? config.tile_n : std::gcd(page_size, config.tile_n);  // one page has no next one
    params.pages = {args.page_table,
                    args.table_stride,
                    static_cast<int>(args.pages),
                    make_divisor(page_size),
                    box_rows,
                    config.tile_n / box_rows * (config.head_dim / kSwizzleAtomColumns),
                    static_cast<int>(args.k.head_stride),
                    static_cast<int>(args.v.head_stride)};
    if (capacity(args) == 0) return Status::kOk;  // no key is loaded
    FLASHCORE_RETURN_IF_FAILED(encode_pages("k", args.k, args, box_rows, params.k));
    return encode_pages("v", args.v, args, box_rows, params.v);
}

}  // namespace flashcore::attention
