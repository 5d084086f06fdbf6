// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#pragma once

#define FLASHCORE_DECODE_VARIANTS(X) \
    X(flashcore_decode_d64_fp16_variant) \
    X(flashcore_decode_d64_bf16_variant) \
    X(flashcore_decode_d128_fp16_variant) \
    X(flashcore_decode_d128_bf16_variant) \
    X(flashcore_decode_d256_fp16_variant) \
    X(flashcore_decode_d256_bf16_variant) \
    X(flashcore_decode_deterministic_d64_fp16_variant) \
    X(flashcore_decode_deterministic_d64_bf16_variant) \
    X(flashcore_decode_deterministic_d128_fp16_variant) \
    X(flashcore_decode_deterministic_d128_bf16_variant) \
    X(flashcore_decode_deterministic_d256_fp16_variant) \
    X(flashcore_decode_deterministic_d256_bf16_variant)
