// Generated from kernel/variants.toml by tools/docs/generate_instantiations.py. Do not edit.
#pragma once

#define FLASHCORE_ATTENTION_VARIANTS(X) \
    X(flashcore_attention_fwd_d64_fp16_full_variant) \
    X(flashcore_attention_fwd_d64_fp16_causal_variant) \
    X(flashcore_attention_fwd_d64_bf16_full_variant) \
    X(flashcore_attention_fwd_d64_bf16_causal_variant) \
    X(flashcore_attention_fwd_d128_fp16_full_variant) \
    X(flashcore_attention_fwd_d128_fp16_causal_variant) \
    X(flashcore_attention_fwd_d128_bf16_full_variant) \
    X(flashcore_attention_fwd_d128_bf16_causal_variant) \
    X(flashcore_attention_fwd_d256_fp16_full_variant) \
    X(flashcore_attention_fwd_d256_fp16_causal_variant) \
    X(flashcore_attention_fwd_d256_bf16_full_variant) \
    X(flashcore_attention_fwd_d256_bf16_causal_variant) \
    X(flashcore_attention_fwd_paged_d64_fp16_full_variant) \
    X(flashcore_attention_fwd_paged_d64_fp16_causal_variant) \
    X(flashcore_attention_fwd_paged_d64_bf16_full_variant) \
    X(flashcore_attention_fwd_paged_d64_bf16_causal_variant) \
    X(flashcore_attention_fwd_paged_d128_fp16_full_variant) \
    X(flashcore_attention_fwd_paged_d128_fp16_causal_variant) \
    X(flashcore_attention_fwd_paged_d128_bf16_full_variant) \
    X(flashcore_attention_fwd_paged_d128_bf16_causal_variant) \
    X(flashcore_attention_fwd_paged_d256_fp16_full_variant) \
    X(flashcore_attention_fwd_paged_d256_fp16_causal_variant) \
    X(flashcore_attention_fwd_paged_d256_bf16_full_variant) \
    X(flashcore_attention_fwd_paged_d256_bf16_causal_variant)
