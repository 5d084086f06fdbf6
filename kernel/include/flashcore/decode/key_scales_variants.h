// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#pragma once

#define FLASHCORE_DECODE_KEY_SCALES_VARIANTS(X) \
    X(flashcore_decode_key_scales_d64_variant) \
    X(flashcore_decode_key_scales_d128_variant) \
    X(flashcore_decode_key_scales_d256_variant)
