// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#pragma once

#define FLASHCORE_DECODE_FP8_VARIANTS(X) \
    X(flashcore_decode_d64_fp16_e4m3_variant) \
    X(flashcore_decode_d64_bf16_e4m3_variant) \
    X(flashcore_decode_d64_e4m3_e4m3_variant) \
    X(flashcore_decode_d128_fp16_e4m3_variant) \
    X(flashcore_decode_d128_bf16_e4m3_variant) \
    X(flashcore_decode_d128_e4m3_e4m3_variant) \
    X(flashcore_decode_d256_fp16_e4m3_variant) \
    X(flashcore_decode_d256_bf16_e4m3_variant) \
    X(flashcore_decode_d256_e4m3_e4m3_variant)
