// The order of keys and columns in the transposed values of E4M3. Host and device.
//
// A lane's accumulators of 16 keys are keys 8b + 2q + e, for lane q of a quad, b and e from 0 to 1. As A operand it holds places
// 4q + 2b + e. A sum over keys has no order. So the transposed values store key 8b + 2q + e at place 4q + 2b + e, and no
// probability moves. Row n holds column `value_column(n)`, so that a lane has eight neighbouring columns of the output.
#pragma once

#include "flashcore/core/host_device.h"

namespace flashcore::attention {

constexpr int kValueKeys = 128;    // a block of keys. The last one is filled up with zeros
constexpr int kValueColumns = 128;

FLASHCORE_HOST_DEVICE constexpr int value_key(int place) {
    return place / 16 * 16 + place / 2 % 2 * 8 + place / 4 % 4 * 2 + place % 2;
}
FLASHCORE_HOST_DEVICE constexpr int value_column(int row) {
    return row / 32 * 32 + row / 2 % 4 * 8 + row / 8 % 4 * 2 + row % 2;
}
// The row of a column: the inverse of value_column.
FLASHCORE_HOST_DEVICE constexpr int value_row(int column) {
    return column / 32 * 32 + column / 8 % 4 * 2 + column / 2 % 4 * 8 + column % 2;
}

}  // namespace flashcore::attention
