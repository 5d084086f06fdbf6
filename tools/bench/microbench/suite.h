// The groups of microbenchmarks, in the order in which they run.
#pragma once

namespace microbench {

void run_pipes();    // tensor cores, exponentials and issue: alone and together
void run_attend();   // a KV iteration of attention without loads, masks and edges, in several orders
void run_latency();  // of products, hand-overs and copies
void run_memory();   // L2 to shared memory with and without multicast, device memory by bytes in flight
void run_fp8();      // E4M3 to fp16 in registers, next to the mmas of decode
void run_clocks();   // the clock by load, in the stream and from NVML

}  // namespace microbench
