// Prints attention/value_order.h: "key column" for every place and row. Fails if value_row is not the inverse.
#include <cstdio>

#include "flashcore/attention/value_order.h"

int main() {
    using namespace flashcore::attention;
    for (int i = 0; i < kValueKeys; ++i) {
        if (value_row(value_column(i)) != i) return 1;
        std::printf("%d %d\n", value_key(i), value_column(i));
    }
}
