// C = A * B of fp16 by the tensor cores that every architecture has (mma.sync), one warp per 16 x 8 tile. Compiled only.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#ifndef TILE_K
#define TILE_K 16
#endif

extern "C" __global__ void __launch_bounds__(32) matmul_f16(const __half* a, const __half* b, float* c, int n, int k) {
  const int row = threadIdx.x / 4, column = threadIdx.x % 4 * 2;
  float sum[4] = {};
  for (int start = 0; start < k; start += TILE_K) {
    const __half* left = a + (blockIdx.y * 16 + row) * k + start + column;
    const __half* right = b + (blockIdx.x * 8 + row) * k + start + column;
    const unsigned fragment[4] = {
        *reinterpret_cast<const unsigned*>(left), *reinterpret_cast<const unsigned*>(left + 8 * k),
        *reinterpret_cast<const unsigned*>(left + 8), *reinterpret_cast<const unsigned*>(left + 8 * k + 8)};
    const unsigned other[2] = {*reinterpret_cast<const unsigned*>(right), *reinterpret_cast<const unsigned*>(right + 8)};
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(fragment[0]), "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3]), "r"(other[0]), "r"(other[1]));
  }
  float* out = c + (blockIdx.y * 16 + row) * n + blockIdx.x * 8 + column;
  out[0] = sum[0], out[1] = sum[1], out[8 * n] = sum[2], out[8 * n + 1] = sum[3];
}

extern "C" int matmul_launch(const __half* a, const __half* b, float* c, int m, int n, int k, cudaStream_t stream) {
  matmul_f16<<<dim3(n / 8, m / 16), 32, 0, stream>>>(a, b, c, n, k);
  return static_cast<int>(cudaGetLastError());
}
