// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#pragma once

#define FLASHCORE_E4M3_TRANSPOSE_VARIANTS(X) \
    X(flashcore_e4m3_transpose_fp16_variant) \
    X(flashcore_e4m3_transpose_bf16_variant) \
    X(flashcore_e4m3_transpose_e4m3_variant)
