// Small kernels with planted faults, to learn what compute-sanitizer says about each.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
__global__ void __launch_bounds__(128) noop(float* p) { p[threadIdx.x] = 1.0f; }
extern "C" __global__ void fault_clean(float* out, const float* in, int n) {
  __shared__ float s[128];
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < n) out[threadIdx.x] = s[127 - threadIdx.x];
}
extern "C" __global__ void fault_oob(float* out, const float* in, int n) {
  out[threadIdx.x + n] = in[threadIdx.x];
}
extern "C" __global__ void fault_race(float* out, const float* in, int n) {
  __shared__ float s[128];
  s[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x < n) out[threadIdx.x] = s[127 - threadIdx.x];
}
extern "C" __global__ void fault_uninit(float* out, const float* in, int n) {
  if (threadIdx.x < n) out[threadIdx.x] = in[threadIdx.x + 1024];
}
extern "C" __global__ void fault_sync(float* out, const float* in, int n) {
  if (threadIdx.x < 48) __syncthreads();
  out[threadIdx.x] = in[threadIdx.x];
}
int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "clean";
  if (!strcmp(what, "nocuda")) { puts("no cuda"); return 0; }
  float *in, *out;
  if (cudaMalloc(&in, 8192) || cudaMalloc(&out, 512)) return 3;
  cudaMemset(in, 0, 512); cudaMemset(out, 0, 512);
  for (int i = 0; i < 2; ++i) {
    if (!strcmp(what, "clean") || !strcmp(what, "after")|| !strcmp(what, "segv")) fault_clean<<<2, 128>>>(out, in, 128);
    if (!strcmp(what, "oob")) fault_oob<<<1, 128>>>(out, in, 120);
    if (!strcmp(what, "race")) fault_race<<<1, 128>>>(out, in, 128);
    if (!strcmp(what, "uninit")) fault_uninit<<<1, 128>>>(out, in, 8);
    if (!strcmp(what, "sync")) fault_sync<<<1, 128>>>(out, in, 128);
    noop<<<1, 128>>>(out);
    cudaError_t e = cudaDeviceSynchronize();
    printf("launch %d: %s\n", i, cudaGetErrorString(e)); fflush(stdout);
  }
  if (!strcmp(what, "segv")) { *(volatile int*)0 = 1; }
  puts("2 launches ran");
  return 0;
}
