"""FlashAttention-3's functions. Off Hopper, and for what the Hopper kernels refuse, the Triton kernel computes them.

``s_aux`` is the name of ``sinks`` in Transformers. In a graph of torch.compile there is no second kernel.
"""

from __future__ import annotations

from typing import Any

from flashcore.doors.choice import serve

HALF = 2
__all__ = ["flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache"]


def flash_attn_func(
    q: Any, k: Any, v: Any, softmax_scale: float | None = None, causal: bool = False, *, window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0, deterministic: bool = False, s_aux: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """Compute attention of (batch, rows, heads, d)."""
    return serve(
        "flash_attn_func", q, k, v, softmax_scale, causal, window_size=window_size, softcap=softcap,
        deterministic=deterministic, **_name_sinks(s_aux, options),
    )  # fmt: skip


def flash_attn_varlen_func(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, max_seqlen_q: Any, max_seqlen_k: Any, *,
    softmax_scale: float | None = None, causal: bool = False, window_size: tuple[int, int] = (-1, -1), softcap: float = 0.0,
    deterministic: bool = False, s_aux: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """Compute attention of packed sequences, (all rows, heads, d)."""
    return serve(
        "flash_attn_varlen_func", q, k, v, cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k),
        softmax_scale=softmax_scale, causal=causal, window_size=window_size, softcap=softcap, deterministic=deterministic,
        **_name_sinks(s_aux, options),
    )  # fmt: skip


def flash_attn_with_kvcache(
    q: Any, k_cache: Any, v_cache: Any, k: Any = None, v: Any = None, *, cache_seqlens: Any = None, page_table: Any = None,
    softmax_scale: float | None = None, causal: bool = False, window_size: tuple[int, int] = (-1, -1), softcap: float = 0.0,
    s_aux: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """Compute attention to a cache, after new keys and values were written into it."""
    return serve(
        "flash_attn_with_kvcache", q, k_cache, v_cache, k, v, cache_seqlens=cache_seqlens, page_table=page_table,
        softmax_scale=softmax_scale, causal=causal, window_size=window_size, softcap=softcap, **_name_sinks(s_aux, options),
    )  # fmt: skip


def _name_sinks(s_aux: Any, options: dict[str, Any]) -> dict[str, Any]:
    return options if s_aux is None else {**options, "sinks": to_sinks(s_aux)}


def to_sinks(s_aux: Any) -> Any:
    """Convert float16 to bfloat16, because the kernels read that or float32."""
    is_half = s_aux is not None and s_aux.element_size() == HALF
    return s_aux.bfloat16() if is_half else s_aux
