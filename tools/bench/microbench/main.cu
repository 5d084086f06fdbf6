// usage: microbench [group ...]     groups: pipes attend latency memory clocks fp8 (default: all)
// Writes one JSON line per reading to standard output. Needs a Hopper GPU and does not change its clocks.
#include <cstring>

#include "harness.cuh"

namespace {

struct Group {
    const char* name;
    void (*run)();
    bool wanted;
};
Group groups[] = {{"latency", microbench::run_latency}, {"pipes", microbench::run_pipes},   {"attend", microbench::run_attend},
                  {"memory", microbench::run_memory},   {"clocks", microbench::run_clocks}, {"fp8", microbench::run_fp8}};

}  // namespace

int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        bool known = false;
        for (Group& group : groups) {
            if (std::strcmp(argv[i], group.name) == 0) known = group.wanted = true;
        }
        if (!known) {
            std::fprintf(stderr, "microbench: no group %s; there are latency, pipes, attend, memory, clocks, fp8\n", argv[i]);
            return 2;
        }
    }
    cudaDeviceProp device{};
    microbench::check(cudaGetDeviceProperties(&device, 0), "device 0");
    if (device.major != 9 || device.minor != 0) {
        std::fprintf(stderr, "microbench: %s has compute capability %d.%d; 9.0 is needed\n", device.name, device.major, device.minor);
        return 4;
    }
    std::printf("{\"device\": \"%s\", \"multiprocessors\": %d, \"l2_bytes\": %d}\n", device.name, device.multiProcessorCount,
                device.l2CacheSize);
    for (const Group& group : groups) {
        if (argc == 1 || group.wanted) group.run();
    }
    return 0;
}
