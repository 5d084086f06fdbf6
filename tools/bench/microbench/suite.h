// The groups of microbenchmarks, in the order in which they run.
#pragma once

namespace microbench {

void run_pipes();    // tensor cores, exponentials and issue: alone and beside each other
void run_attend();   // the inner step of attention without loads, masks and edges, in several orders
void run_latency();  // of products, hand-overs and copies
void run_memory();   // L2 to shared memory with and without multicast; device memory by bytes in flight
void run_fp8();      // E4M3 to fp16 in registers, next to the products of decode
void run_clocks();   // the clock by load, in the stream and as NVML tells it

}  // namespace microbench
