// The scale of scores as a softmax on powers of two wants it. Host code.
#pragma once

#include <cfloat>
#include <cmath>

namespace flashcore {

struct ScoreScale {
    float log2;       // |scale| * log2(e), at least the smallest normal float
    float magnitude;  // |scale|, for the log-sum-exp: log2 * ln(2) would carry two roundings more
    float sign;       // what every score is multiplied by first: 1, -1 for a negative scale, 0 for none
};

// The factor must be positive for the maximum to be one: a negative or vanishing scale goes into the sign of the scores.
inline ScoreScale score_scale(float scale) {
    constexpr double kLog2E = 1.44269504088896340736;
    const double magnitude = std::fabs(static_cast<double>(scale)) * kLog2E;
    const bool vanishes = magnitude < FLT_MIN;
    return {vanishes ? 1.0f : static_cast<float>(std::fmin(magnitude, FLT_MAX)), std::fabs(scale),
            vanishes ? 0.0f : std::copysign(1.0f, scale)};
}

}  // namespace flashcore
