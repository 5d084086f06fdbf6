// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#pragma once

#define FLASHCORE_E4M3_VARIANTS(X) \
    X(flashcore_e4m3_fwd_d128_full_variant) \
    X(flashcore_e4m3_fwd_d128_causal_variant) \
    X(flashcore_e4m3_fwd_d64_full_variant) \
    X(flashcore_e4m3_fwd_d64_causal_variant) \
    X(flashcore_e4m3_fwd_d256_full_variant) \
    X(flashcore_e4m3_fwd_d256_causal_variant)
