// Softmax of rows of float32, one block per row. Compiled for every architecture, and never run by the tests.
#include <cuda_runtime.h>

constexpr int kThreads = 256;

__device__ float reduce(float value, float* shared, bool largest) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, offset);
    value = largest ? fmaxf(value, other) : value + other;
  }
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = shared[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) value = largest ? fmaxf(value, shared[warp]) : value + shared[warp];
  __syncthreads();
  return value;
}

extern "C" __global__ void __launch_bounds__(kThreads) softmax_f32(const float* in, float* out, int columns) {
  __shared__ float shared[kThreads / 32];
  const float* row = in + static_cast<size_t>(blockIdx.x) * columns;
  float top = -INFINITY, sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += kThreads) top = fmaxf(top, row[i]);
  top = reduce(top, shared, true);
  for (int i = threadIdx.x; i < columns; i += kThreads) sum += expf(row[i] - top);
  sum = reduce(sum, shared, false);
  for (int i = threadIdx.x; i < columns; i += kThreads) out[static_cast<size_t>(blockIdx.x) * columns + i] = expf(row[i] - top) / sum;
}

extern "C" int softmax_launch(const float* in, float* out, int rows, int columns, cudaStream_t stream) {
  softmax_f32<<<rows, kThreads, 0, stream>>>(in, out, columns);
  return static_cast<int>(cudaGetLastError());
}
