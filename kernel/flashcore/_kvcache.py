"""FlashAttention-3's function for new tokens over a cache, on FlashCore's decode or prefill kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from flashcore._cache import attend_to_cache
from flashcore._decode import repeat_decode
from flashcore._flash import NO_WINDOW, compute_max_ctas, refuse_unsupported, to_scale, to_window
from flashcore._launch import MISSING
from flashcore._local import make_local
from flashcore._rotary import have_positions, rotate
from flashcore._step import repeat
from flashcore._tensors import Result

_CACHE: Mapping[str, Any] = {"qv": None}
_DEFAULTS = tuple(_CACHE.values())
is_compiling = torch.compiler.is_compiling  # found faster in this module


def flash_attn_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor | None = None,
    v: torch.Tensor | None = None,
    qv: Any = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    cache_seqlens: torch.Tensor | int | None = None,
    cache_batch_idx: Any = None,
    cache_leftpad: Any = None,
    page_table: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k_new: Any = None,
    max_seqlen_q: int | None = None,
    rotary_seqlens: Any = None,
    q_descale: Any = None,
    k_descale: Any = None,
    v_descale: Any = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = NO_WINDOW,
    attention_chunk: int = 0,
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    scheduler_metadata: Any = None,
    num_splits: int = 0,
    pack_gqa: bool | None = None,
    sm_margin: int = 0,
    return_softmax_lse: bool = False,
    sinks: Any = None,
) -> Result:
    """Compute ``decode`` with FlashAttention-3's signature.

    ``scheduler_metadata`` is ignored. ``k`` and ``v`` are appended to the caches at ``cache_seqlens``, after ``rotary_cos`` and ``rotary_sin``
    have turned ``q`` and ``k``. More than 16 queries, ``cache_leftpad`` and ``cu_seqlens_q`` use the prefill kernel.
    The result is the output, or (output, log-sum-exp).
    """
    if (
        rotary_cos is None and rotary_sin is None and cache_batch_idx is None and cache_leftpad is None and cu_seqlens_q is None
        and cu_seqlens_k_new is None and qv is None and sinks is None and type(window_size) is tuple and window_size == NO_WINDOW
        and not (attention_chunk or softcap or sm_margin) and not is_compiling()
    ):  # fmt: skip
        result = repeat(
            q, k_cache, v_cache, k, v, cache_seqlens, page_table, q_descale, k_descale, v_descale, softmax_scale, causal, num_splits,
            return_softmax_lse,
        )  # fmt: skip
        if result is not MISSING:
            return result
        tensors = (q, k_cache, v_cache, k, v, None, cache_seqlens, page_table, q_descale, k_descale, v_descale, None, None, None)
        result = repeat_decode(tensors, causal, softmax_scale, num_splits, return_softmax_lse)
        if result is not MISSING:
            return result
    values = (qv,)
    if values != _DEFAULTS:
        refuse_unsupported(_CACHE, values)
    if k is not None and cache_seqlens is None:
        raise ValueError("cache_seqlens: is None with new keys. Pass the lengths before the append")
    if cache_batch_idx is not None:
        page_table = make_table(cache_batch_idx, page_table)
    if rotary_cos is not None or rotary_sin is not None:
        capacity = k_cache.shape[1] * (1 if page_table is None else page_table.shape[1])
        longest = (q.shape[1] if cu_seqlens_q is None else max_seqlen_q, capacity)
        q, k = rotate(
            q, k, (rotary_cos, rotary_sin), cache_seqlens if rotary_seqlens is None else rotary_seqlens,
            (cu_seqlens_q, cu_seqlens_k_new), interleaved=rotary_interleaved,
            causal=have_positions(causal, window_size, attention_chunk, longest),
        )  # fmt: skip
    if is_compiling() and cu_seqlens_k_new is None and cache_leftpad is None:
        out, lse = _call_operator(
            (q, k_cache, v_cache), (k, v), cache_seqlens,
            (cu_seqlens_q, page_table, q_descale, k_descale, v_descale), (max_seqlen_q, softmax_scale, causal, num_splits, sm_margin),
            (*to_window(window_size), attention_chunk, softcap, sinks),
        )  # fmt: skip
        return (out, lse) if return_softmax_lse else out
    return attend_to_cache(
        (q, k_cache, v_cache, k, v), lengths=cache_seqlens, page_table=page_table, cu_seqlens_q=cu_seqlens_q,
        max_seqlen_q=max_seqlen_q, scales=(q_descale, k_descale, v_descale), causal=causal, scale=softmax_scale, splits=num_splits,
        max_ctas=compute_max_ctas(q, sm_margin) if sm_margin else 0, return_lse=return_softmax_lse, new_starts=cu_seqlens_k_new,
        padding=cache_leftpad, local=make_local(window_size, attention_chunk, softcap, sinks),
    )  # fmt: skip


def make_table(batch_index: torch.Tensor, page_table: torch.Tensor | None) -> torch.Tensor:
    """Choose rows of the page table. Without one, each sequence of the cache is a page, so that any of them can serve a query."""
    if not isinstance(batch_index, torch.Tensor) or batch_index.dim() != 1:
        raise ValueError(f"cache_batch_idx: must be a tensor of one dimension, is {batch_index!r:.40}")
    if page_table is None:
        return batch_index.view(batch_index.shape[0], 1)
    return page_table[batch_index.long().clamp(0, page_table.shape[0] - 1)]


def _call_operator(
    tensors: tuple[torch.Tensor, ...],
    new: tuple[torch.Tensor | None, ...],
    lengths: Any,
    optional: tuple[Any, ...],
    options: Any,
    limits: tuple[Any, ...],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Call the registered operator, which a graph can hold. Its lengths are a tensor."""
    cu_seqlens_q, page_table, *scales = optional
    max_seqlen_q, scale, causal, splits, sm_margin = options
    if isinstance(lengths, int):
        batch = tensors[0].shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1
        lengths = torch.full((batch,), lengths, dtype=torch.int32, device=tensors[0].device)
    rest = (
        cu_seqlens_q, None, None, lengths, page_table, *scales, max_seqlen_q, None, to_scale(scale), causal, splits, sm_margin,
        *limits,
    )  # fmt: skip
    operators = torch.ops.flashcore
    result: tuple[torch.Tensor, torch.Tensor]
    if new[0] is None and new[1] is None:
        result = operators.fwd.default(*tensors, *rest)
    else:
        result = operators.fwd_append.default(*tensors, *new, *rest)
    return result
