"""FlashAttention-3's functions by name, argument order and layout (batch, sequence, heads, head dimension), on our kernels.

Whoever calls ``flash_attn_interface`` can call these and that in ``_kvcache.py``. They compute forward alone. An argument that is not
supported raises NotImplementedError, which names it, before anything is launched; what only steers FlashAttention's own schedule
(``pack_gqa``, ``deterministic``, which is about its backward) changes no result and is taken as it comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from flashcore._attention import attention
from flashcore._tensors import multiprocessors, whole
from flashcore._varlen import attention_varlen

EVERYWHERE = (-1, -1)
_PREFILL: Mapping[str, Any] = {
    **dict.fromkeys(("qv", "q_descale", "k_descale", "v_descale")),
    "window_size": EVERYWHERE,
    "attention_chunk": 0,
    "softcap": 0.0,
    "sinks": None,
    "num_splits": 1,
}
_PLAIN = tuple(_PREFILL.values())

Result = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    window_size: tuple[int, int] = EVERYWHERE,
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
    sinks: Any = None,
) -> Result:
    """Attention of q (batch, queries, heads, d) over k and v (batch, keys, kv heads, d); with ``return_attn_probs`` also the log-sum-exp.

    ``causal`` is aligned bottom right; a row that sees no key is 0. ``sm_margin`` leaves so many multiprocessors to others.
    """
    given = (qv, q_descale, k_descale, v_descale, window_size, attention_chunk, softcap, sinks, num_splits)
    if given != _PLAIN:
        refuse_others(_PREFILL, given)
    return attention(
        q, k, v, causal=causal, scale=softmax_scale, return_lse=return_attn_probs,
        max_ctas=blocks(q, sm_margin) if sm_margin else 0,
    )  # fmt: skip


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    seqused_q: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    qv: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    window_size: tuple[int, int] = EVERYWHERE,
    attention_chunk: int = 0,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    sm_margin: int = 0,
    return_attn_probs: bool = False,
    sinks: Any = None,
) -> Result:
    """Sequences of different lengths, one behind the other: q (all queries, heads, d), k and v (all keys, kv heads, d).

    Sequence i has rows ``cu_seqlens[i]`` up to ``cu_seqlens[i + 1]`` (int32, on the device), or the first ``seqused[i]`` of them.
    ``max_seqlen_q`` and ``max_seqlen_k`` are not needed. With ``return_attn_probs`` also the log-sum-exp, float32 (heads, all queries).
    """
    given = (qv, q_descale, k_descale, v_descale, window_size, attention_chunk, softcap, sinks, num_splits)
    if given != _PLAIN:
        refuse_others(_PREFILL, given)
    return attention_varlen(
        q, k, v, cu_seqlens_q, cu_seqlens_k, causal=causal, scale=softmax_scale,
        seqused_q=seqused_q, seqused_k=seqused_k, return_lse=return_attn_probs, max_ctas=blocks(q, sm_margin) if sm_margin else 0,
    )  # fmt: skip


def blocks(q: torch.Tensor, sm_margin: int) -> int:
    """How many blocks leave so many multiprocessors of the query's device to others. ValueError if that is no number."""
    left = whole(sm_margin, "sm_margin")
    return max(1, multiprocessors(q.device) - left) if isinstance(q, torch.Tensor) else 0


def refuse_others(supported: Mapping[str, Any], given: tuple[Any, ...]) -> None:
    """NotImplementedError that names the first argument whose value is none that is supported: a list may be a pair, 0 splits are 1."""
    for (name, only), value in zip(supported.items(), given, strict=True):
        plain = tuple(value) if type(value) is list else value
        if plain is only or (only is not None and not isinstance(plain, torch.Tensor) and plain == only):
            continue
        if name != "num_splits":
            raise NotImplementedError(f"{name}: FlashCore supports {only!r} alone, not {_shown(value)}")
        if whole(value, name) > 1:
            raise NotImplementedError(f"{name}: FlashCore splits the keys of a prefill into 1 part alone, not {value}")


def _shown(value: Any) -> str:
    """A value in one short line; a tensor by its type."""
    return f"a {type(value).__name__}" if isinstance(value, torch.Tensor) else " ".join(repr(value).split())[:40]
