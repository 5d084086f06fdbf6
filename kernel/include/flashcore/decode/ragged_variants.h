// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#pragma once

#define FLASHCORE_DECODE_RAGGED_VARIANTS(X) \
    X(flashcore_decode_ragged_d64_fp16_variant) \
    X(flashcore_decode_ragged_d64_bf16_variant) \
    X(flashcore_decode_ragged_d128_fp16_variant) \
    X(flashcore_decode_ragged_d128_bf16_variant) \
    X(flashcore_decode_ragged_d256_fp16_variant) \
    X(flashcore_decode_ragged_d256_bf16_variant) \
    X(flashcore_decode_warpgroup_d64_fp16_variant) \
    X(flashcore_decode_warpgroup_d64_bf16_variant) \
    X(flashcore_decode_warpgroup_d128_fp16_variant) \
    X(flashcore_decode_warpgroup_d128_bf16_variant)
