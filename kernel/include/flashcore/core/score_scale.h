// The scale of the scores for a softmax that works with powers of two. Host code.
#pragma once

#include <cfloat>
#include <cmath>

namespace flashcore {

struct ScoreScale {
    float log2;       // |scale| * log2(e), at least the smallest normal float
    float magnitude;  // |scale|, for the log-sum-exp, because log2 * ln(2) would add two roundings
    float sign;       // factor of every score before the scale: 1, -1 for a negative scale, 0 for a zero scale
};

// A row maximum survives scaling only if the factor is positive. So the sign of the scale, or a zero, goes into the scores.
inline ScoreScale score_scale(float scale) {
    constexpr double kLog2E = 1.44269504088896340736;
    const double magnitude = std::fabs(static_cast<double>(scale)) * kLog2E;
    const bool vanishes = magnitude < FLT_MIN;
    return {vanishes ? 1.0f : static_cast<float>(std::fmin(magnitude, FLT_MAX)), std::fabs(scale),
            vanishes ? 0.0f : std::copysign(1.0f, scale)};
}

}  // namespace flashcore
