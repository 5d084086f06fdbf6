// The natural logarithm for the log-sum-exp.
#pragma once

namespace flashcore {

// Returns ln x. Under --use_fast_math, logf is lg2.approx times ln 2, and both steps round at the size of the result. Here x = m
// 2^e with m in [0.75, 1.5), so those roundings are at the size of ln m. One rounding of the whole result remains.
__device__ __forceinline__ float natural_log(float x) {
    constexpr int kThreeQuarters = 0x3F400000;
    constexpr int kMantissaBits = 23;
    constexpr int kInfinity = 0x7F800000;
    constexpr float kLn2 = 0.693147182f;
    const int bits = __float_as_int(x);
    const int exponent = (bits - kThreeQuarters) >> kMantissaBits;
    const float mantissa = __int_as_float(bits - (exponent << kMantissaBits));
    const float result = fmaf(static_cast<float>(exponent), kLn2, __logf(mantissa));
    return x < __int_as_float(kInfinity) ? result : x;  // keep infinity and NaN
}

}  // namespace flashcore
