// The query rows of a work tile and their positions.
#pragma once

#include <cstdint>

#include "flashcore/decode/params.h"

namespace flashcore::decode {

// Makes the number of heads a compile-time constant where it can only be one.
template <class Tuning>
__device__ __forceinline__ PackedRows packed_rows(const Params& params) {
    PackedRows rows = params.rows;
    if (max_heads(Tuning::config) == 1) rows.heads = 1;
    return rows;
}

// The rows of a split. With packed queries each sequence has its own number, and no more row tiles than it needs.
template <class Tuning>
__device__ __forceinline__ PackedRows packed_rows(const Params& params, const SplitOf<Tuning>& split) {
    PackedRows rows = packed_rows<Tuning>(params);
    if constexpr (Tuning::config.ragged) {
        rows.sq = split.queries();
        rows.count = rows.sq * rows.group;
        rows.tile_shift = split.tile_shift();
        rows.per_work_tile = kRowTileRows << rows.tile_shift;
    }
    return rows;
}

// The first KV head of a work tile.
__device__ __forceinline__ int kv_head_of(const Params& params, const PackedRows& rows, int work_tile) {
    return params.row_work_tiles == 1 ? work_tile * rows.heads : divide(work_tile, params.row_work_tiles);
}

// The rows of a work tile among those of its sequence.
struct WorkTile {
    int sequence;
    int kv_head;    // the first one
    int first_row;  // in packed rows
    int first_query = 0;

    __device__ __forceinline__ WorkTile(const Params& params, const PackedRows& rows, const Split& split)
        : sequence(split.sequence),
          kv_head(kv_head_of(params, rows, split.work_tile)),
          first_row(params.row_work_tiles == 1 ? 0 : (split.work_tile - kv_head * params.row_work_tiles) * rows.per_work_tile) {}
    // The rows of all sequences are one batch.
    __device__ __forceinline__ WorkTile(const Params& params, const PackedRows& rows, const RaggedSplit& split)
        : sequence(0),
          kv_head(kv_head_of(params, rows, split.work_tile)),
          first_row(0),
          first_query(split.first_query) {}
};

// The query and head of a packed row. `row` counts the rows of the sequence and, if the work tile has one KV head, of that head.
struct QueryRow {
    int query;
    int head;

    __device__ __forceinline__ QueryRow(const PackedRows& rows, const WorkTile& work_tile, int row)
        : query(rows.query_of(rows.row_of(row))),
          head((work_tile.kv_head + rows.head_of(row) - query) * rows.group + rows.row_of(row)) {}
};

// `Unit` has the bytes of an element.
template <class Unit>
__device__ __forceinline__ const Unit* query_row(const Params& params, const PackedRows& rows, const WorkTile& work_tile,
                                                 int row) {
    const QueryRow coordinate(rows, work_tile, row);
    const FlashcoreOperand& q = params.q;
    return static_cast<const Unit*>(q.data) + work_tile.sequence * q.batch_stride +
           (work_tile.first_query + coordinate.query) * q.sequence_stride + coordinate.head * q.head_stride;
}

// The same for elements of a size known at run time. Not for all: the compiler would make slower loops over gathered keys.
__device__ __forceinline__ const char* query_row(const Params& params, const PackedRows& rows, const WorkTile& work_tile, int row,
                                                 int element_bytes) {
    const char* const first = static_cast<const char*>(params.q.data);
    return first + (query_row<char>(params, rows, work_tile, row) - first) * element_bytes;
}

}  // namespace flashcore::decode
