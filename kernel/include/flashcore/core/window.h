// Which keys a query sees: a sliding window around its position, and a chunk of positions. Host and device.
#pragma once

#include "flashcore/core/divisor.h"
#include "flashcore/core/host_device.h"

namespace flashcore {

constexpr int kUnlimited = (1 << 30) - 1;  // more than any distance between a query and a key

// A query at position p, which is that of the key with which it is aligned, sees the keys p - left .. p + right.
struct Window {
    int left;
    int right;
    Divisor chunk;  // of positions that see each other, or its value is 0
};

// Negative sides are unlimited, and so is a chunk of 0.
inline Window make_window(int left, int right, int chunk) {
    const auto limited = [](int side) { return side < 0 || side > kUnlimited ? kUnlimited : side; };
    return {limited(left), limited(right), chunk > 0 ? make_divisor(limited(chunk)) : Divisor{}};
}

// The keys first .. last - 1, none if last <= first.
struct KeyRange {
    int first;
    int last;
};

// Both ends never decrease with the position. Positions before the first key are in no chunk.
FLASHCORE_HOST_DEVICE constexpr KeyRange visible_range(const Window& window, int position, int keys) {
    int first = position - window.left;
    int last = position + window.right + 1;
    if (window.chunk.value > 0) {
        const int chunk = position < 0 ? 0 : window.chunk.quotient(position) * window.chunk.value;
        const int end = position < 0 ? 0 : chunk + window.chunk.value;
        first = first > chunk ? first : chunk;
        last = last < end ? last : end;
    }
    return {first > 0 ? first : 0, last < keys ? last : keys};
}

}  // namespace flashcore
