// Which rows of queries a unit has, and where they are.
#pragma once

#include <cstdint>

#include "flashcore/decode/params.h"

namespace flashcore::decode {

__device__ __forceinline__ int kv_head_of(const Params& params, int unit) {
    return params.row_units == 1 ? unit : divide(unit, params.row_units);
}

// Rows of a unit among those of its sequence.
struct Unit {
    int sequence;
    int kv_head;
    int first_row;  // packed

    __device__ __forceinline__ Unit(const Params& params, const Piece& piece)
        : sequence(piece.sequence),
          kv_head(kv_head_of(params, piece.unit)),
          first_row((piece.unit - kv_head * params.row_units) * params.rows.per_unit) {}
};

// A row of the queries; `row` counts those of the sequence and KV head.
__device__ __forceinline__ const uint16_t* query_row(const Params& params, const Unit& unit, int row) {
    const int query = params.rows.query_of(row);
    const int head = unit.kv_head * params.rows.group + row - query * params.rows.group;
    const FlashcoreOperand& q = params.q;
    return static_cast<const uint16_t*>(q.data) + unit.sequence * q.batch_stride + query * q.sequence_stride +
           head * q.head_stride;
}

}  // namespace flashcore::decode
