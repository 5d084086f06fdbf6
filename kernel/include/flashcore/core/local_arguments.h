// What the launchers make of a window, a cap of the scores and sinks. Host code.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "flashcore/core/arguments.h"
#include "flashcore/core/local.h"
#include "flashcore/core/local_abi.h"
#include "flashcore/core/score_scale.h"

namespace flashcore {

inline Status check_local(const FlashcoreLocal& args, const void* sinks) {
    if (args.enabled == 0) return Status::kOk;
    FLASHCORE_RETURN_IF_FAILED(check_count("chunk", args.chunk));
    if (!std::isfinite(args.softcap) || args.softcap < 0.0f) {
        return fail(Status::kInvalidArgument, "softcap: must be finite and not negative, but is %g",
                    static_cast<double>(args.softcap));
    }
    if (args.sinks_dtype != 0 && args.sinks_dtype != 1) {
        return fail(Status::kInvalidArgument, "sinks: must be 0 (fp32) or 1 (bf16), but are %d", args.sinks_dtype);
    }
    return check_aligned("sinks", sinks, args.sinks_dtype == 1 ? 2 : 4);
}

template <class Arguments>
Local make_local(const Arguments& arguments, float scale) {
    const FlashcoreLocal& args = arguments.local;
    constexpr double kLog2E = 1.44269504088896340736;
    Local local{};
    local.window = make_window(args.window_left, arguments.causal != 0 ? 0 : args.window_right, args.chunk);
    local.cap = args.softcap;
    if (args.softcap > 0.0f) {
        const double factor = 2.0 * kLog2E * static_cast<double>(scale) / static_cast<double>(args.softcap);
        local.cap_factor = static_cast<float>(std::clamp(factor, -static_cast<double>(FLT_MAX), static_cast<double>(FLT_MAX)));
    }
    local.sinks = arguments.sinks;
    local.bf16_sinks = args.sinks_dtype == 1;
    local.loaded_tiles = arguments.loaded_tiles;
    return local;
}

// The scale of the scores after the cap, which has applied the other one.
inline float scale_after_cap(const FlashcoreLocal& args, float scale) {
    return args.enabled != 0 && args.softcap > 0.0f ? 1.0f : scale;
}

}  // namespace flashcore
