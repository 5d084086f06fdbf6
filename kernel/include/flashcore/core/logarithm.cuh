// The logarithm that a log-sum-exp wants.
#pragma once

namespace flashcore {

// ln x. lg2.approx times ln 2, which is what logf is under --use_fast_math, rounds twice at the size of the result; here at that
// of ln m for x = m 2^e with m in [0.75, 1.5), and what is left is one rounding of the whole.
__device__ __forceinline__ float natural_log(float x) {
    constexpr int kThreeQuarters = 0x3F400000;
    constexpr int kMantissaBits = 23;
    constexpr int kInfinity = 0x7F800000;
    constexpr float kLn2 = 0.693147182f;
    const int bits = __float_as_int(x);
    const int exponent = (bits - kThreeQuarters) >> kMantissaBits;
    const float mantissa = __int_as_float(bits - (exponent << kMantissaBits));
    const float result = fmaf(static_cast<float>(exponent), kLn2, __logf(mantissa));
    return x < __int_as_float(kInfinity) ? result : x;  // infinity and NaN stay what they are
}

}  // namespace flashcore
