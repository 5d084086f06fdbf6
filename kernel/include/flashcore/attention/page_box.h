// Where a TMA box of keys is: its entry of the page table, and its coordinates in the map of pages. Host and device.
#pragma once

#include "flashcore/attention/varlen.h"

namespace flashcore::attention {

struct PageBox {
    int entry;  // of the sequence's row of the page table
    int row;    // first row of the box in the batch that ends at row `end` of the page
    int end;    // rows of the page that the sequence has
};

// The box that starts at `key`, of a sequence of `keys` keys. Its rows from `keys` on are outside the map and become zeros.
FLASHCORE_HOST_DEVICE constexpr PageBox page_box(const Divisor& page_size, int keys, int key) {
    const int entry = page_size.quotient(key);
    const int first = entry * page_size.value;
    const int end = clamp(keys - first, 0, page_size.value);
    return {entry, kBatchRows - end + key - first, end};
}

}  // namespace flashcore::attention
