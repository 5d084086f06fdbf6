// Appends to every small cache with kernel/include/flashcore/decode/split_scheduler.h, as the producer does.
// Out: "length added capacity: after, first row written", one line for each case.
#include <cstdio>
#include <initializer_list>

#include "flashcore/decode/split_scheduler.h"

using namespace flashcore::decode;

int main() {
    constexpr int kHuge = 2147483647;
    constexpr int kLengths[] = {-kHuge - 1, -1, 0, 1, 2, 3, 4, 5, 6, 7, 1 << 30, kHuge};
    for (const int capacity : {1, 5, 6, 1 << 30}) {
        for (const int added : {1, 2, 5, 1 << 30}) {
            if (added > capacity) continue;
            for (const int length : kLengths) {
                const int after = keys_after(length, added, capacity);
                const int before = after < capacity ? after - added : keys_before(length, capacity);
                std::printf("%d %d %d %d %d\n", length, added, capacity, after, before);
            }
        }
    }
}
