// Prints where the TMA boxes of keys in pages are, by attention/page_box.h and core/divisor.h.
//
// Input: page_size box_rows keys per line. Output: for each box "entry row end", up to two boxes after the last key.
#include <cstdio>
#include <iostream>

#include "flashcore/attention/page_box.h"

int main() {
    int page_size = 0;
    int box_rows = 0;
    int keys = 0;
    while (std::cin >> page_size >> box_rows >> keys) {
        const flashcore::Divisor divisor = flashcore::make_divisor(page_size);
        for (int key = 0; key < keys + 2 * box_rows; key += box_rows) {
            const auto box = flashcore::attention::page_box(divisor, keys, key);
            std::printf("%d %d %d\n", box.entry, box.row, box.end);
        }
        std::printf("end %d\n", divisor.quotient(2147483647));
    }
}
