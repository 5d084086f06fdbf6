// Prints attention/value_order.h: "key column" for every place and row.
#include <cstdio>

#include "flashcore/attention/value_order.h"

int main() {
    using namespace flashcore::attention;
    for (int i = 0; i < kValueKeys; ++i) std::printf("%d %d\n", value_key(i), value_column(i));
}
