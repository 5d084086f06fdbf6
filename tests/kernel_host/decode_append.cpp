// Appends to every small cache with kernel/include/flashcore/decode/schedule.h, as the producer does.
// Out: "length added room: after, first row written", one line for each case.
#include <cstdio>
#include <initializer_list>

#include "flashcore/decode/schedule.h"

using namespace flashcore::decode;

int main() {
    constexpr int kHuge = 2147483647;
    constexpr int kLengths[] = {-kHuge - 1, -1, 0, 1, 2, 3, 4, 5, 6, 7, 1 << 30, kHuge};
    for (const int room : {1, 5, 6, 1 << 30}) {
        for (const int added : {1, 2, 5, 1 << 30}) {
            if (added > room) continue;
            for (const int length : kLengths) {
                const int after = keys_after(length, added, room);
                const int before = after < room ? after - added : keys_before(length, room);
                std::printf("%d %d %d %d %d\n", length, added, room, after, before);
            }
        }
    }
}
