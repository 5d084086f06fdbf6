// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#pragma once

#define FLASHCORE_DECODE_LOCAL_VARIANTS(X) \
    X(flashcore_decode_local_d64_fp16_variant) \
    X(flashcore_decode_local_d64_bf16_variant) \
    X(flashcore_decode_local_d128_fp16_variant) \
    X(flashcore_decode_local_d128_bf16_variant) \
    X(flashcore_decode_local_d256_fp16_variant) \
    X(flashcore_decode_local_d256_bf16_variant) \
    X(flashcore_decode_local_ragged_d64_fp16_variant) \
    X(flashcore_decode_local_ragged_d64_bf16_variant) \
    X(flashcore_decode_local_ragged_d128_fp16_variant) \
    X(flashcore_decode_local_ragged_d128_bf16_variant) \
    X(flashcore_decode_local_ragged_d256_fp16_variant) \
    X(flashcore_decode_local_ragged_d256_bf16_variant) \
    X(flashcore_decode_local_warpgroup_d64_fp16_variant) \
    X(flashcore_decode_local_warpgroup_d64_bf16_variant) \
    X(flashcore_decode_local_warpgroup_d128_fp16_variant) \
    X(flashcore_decode_local_warpgroup_d128_bf16_variant)
