// out = gelu(x + bias), one thread per element. The bias is repeated in every row.
extern "C" __global__ void __launch_bounds__(256)
    bias_gelu(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ out, int cols, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float v = x[i] + bias[i % cols];
        out[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
    }
}
