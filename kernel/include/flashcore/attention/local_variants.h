// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#pragma once

#define FLASHCORE_ATTENTION_LOCAL_VARIANTS(X) \
    X(flashcore_attention_local_d64_fp16_variant) \
    X(flashcore_attention_local_d64_bf16_variant) \
    X(flashcore_attention_local_d128_fp16_variant) \
    X(flashcore_attention_local_d128_bf16_variant) \
    X(flashcore_attention_local_d256_fp16_variant) \
    X(flashcore_attention_local_d256_bf16_variant) \
    X(flashcore_attention_cap_d64_fp16_variant) \
    X(flashcore_attention_cap_d64_bf16_variant) \
    X(flashcore_attention_cap_d128_fp16_variant) \
    X(flashcore_attention_cap_d128_bf16_variant) \
    X(flashcore_attention_cap_d256_fp16_variant) \
    X(flashcore_attention_cap_d256_bf16_variant) \
    X(flashcore_attention_local_paged_d64_fp16_variant) \
    X(flashcore_attention_local_paged_d64_bf16_variant) \
    X(flashcore_attention_local_paged_d128_fp16_variant) \
    X(flashcore_attention_local_paged_d128_bf16_variant) \
    X(flashcore_attention_local_paged_d256_fp16_variant) \
    X(flashcore_attention_local_paged_d256_bf16_variant) \
    X(flashcore_attention_cap_paged_d64_fp16_variant) \
    X(flashcore_attention_cap_paged_d64_bf16_variant) \
    X(flashcore_attention_cap_paged_d128_fp16_variant) \
    X(flashcore_attention_cap_paged_d128_bf16_variant) \
    X(flashcore_attention_cap_paged_d256_fp16_variant) \
    X(flashcore_attention_cap_paged_d256_bf16_variant)
