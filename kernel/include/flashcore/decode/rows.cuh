// Which rows of queries a unit has, and where they are.
#pragma once

#include <cstdint>

#include "flashcore/decode/params.h"

namespace flashcore::decode {

// With one head as a constant where there is never more than one.
template <class Tuning>
__device__ __forceinline__ Rows rows_of(const Params& params) {
    Rows rows = params.rows;
    if (most_heads(Tuning::config) == 1) rows.heads = 1;
    return rows;
}

// The first of a unit's.
__device__ __forceinline__ int kv_head_of(const Params& params, const Rows& rows, int unit) {
    return params.row_units == 1 ? unit * rows.heads : divide(unit, params.row_units);
}

// Rows of a unit among those of its sequence.
struct Unit {
    int sequence;
    int kv_head;    // the first one
    int first_row;  // packed

    __device__ __forceinline__ Unit(const Params& params, const Rows& rows, const Piece& piece)
        : sequence(piece.sequence),
          kv_head(kv_head_of(params, rows, piece.unit)),
          first_row(params.row_units == 1 ? 0 : (piece.unit - kv_head * params.row_units) * rows.per_unit) {}
};

// Where a row is among the queries; `row` counts those of the unit's sequence and, if it has but one, of its KV head.
struct RowPlace {
    int query;
    int head;

    __device__ __forceinline__ RowPlace(const Rows& rows, const Unit& unit, int row)
        : query(rows.query_of(rows.row_of(row))),
          head((unit.kv_head + rows.head_of(row) - query) * rows.group + rows.row_of(row)) {}
};

__device__ __forceinline__ const uint16_t* query_row(const Params& params, const Rows& rows, const Unit& unit, int row) {
    const RowPlace place(rows, unit, row);
    const FlashcoreOperand& q = params.q;
    return static_cast<const uint16_t*>(q.data) + unit.sequence * q.batch_stride + place.query * q.sequence_stride +
           place.head * q.head_stride;
}

}  // namespace flashcore::decode
