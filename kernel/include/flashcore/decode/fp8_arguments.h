// The scales of a launch over caches of E4M3. Host code.
#pragma once

#include "flashcore/decode/check.h"
#include "flashcore/decode/params.h"

namespace flashcore::decode {

// Without pointers, because there are none yet when the size of the workspace is asked for.
inline bool has_key_scales(const Arguments& args) { return args.k_scale_per_key != 0 || args.v_scale_per_key != 0; }

inline void fill_scales(const Arguments& args, Fp8Params& params) {
    params.q_scale = {args.dtype == kE4m3 ? args.q_scale : nullptr, args.q_scale_batch_stride, args.q_scale_head_stride};
    params.k_scale = {args.k_scale_per_key == 0 ? args.k_scale : nullptr, args.k_scale_batch_stride, args.k_scale_head_stride};
    params.v_scale = {args.v_scale_per_key == 0 ? args.v_scale : nullptr, args.v_scale_batch_stride, args.v_scale_head_stride};
    params.new_dtype = new_type(args);
}

inline void fill_key_scales(const Arguments& args, KeyScaleParams& params) {
    fill_scales(args, params);
    if (args.k_scale_per_key != 0) {
        params.k_key_scale = {args.k_scale, args.k_scale_batch_stride, args.k_scale_key_stride, args.k_scale_head_stride};
    }
    if (args.v_scale_per_key != 0) {
        params.v_key_scale = {args.v_scale, args.v_scale_batch_stride, args.v_scale_key_stride, args.v_scale_head_stride};
    }
    params.q_dtype = static_cast<DType>(args.dtype);
}

}  // namespace flashcore::decode
