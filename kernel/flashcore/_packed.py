"""Queries and caches as packed sequences, among them those that begin behind padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from flashcore._tensors import Result, check_exactly
from flashcore._varlen import attention_varlen


def make_starts(q: torch.Tensor, batch: int, length: int) -> torch.Tensor:
    """Return the first row of each sequence, and the end."""
    return torch.arange(0, batch * length + 1, length, dtype=torch.int32, device=q.device)


def unpack(result: Result, q: torch.Tensor) -> Result:
    """Give output and log-sum-exp of packed rows the shape for queries of the same number."""
    batch, queries, heads = q.shape[:3]
    out, lse = result if isinstance(result, tuple) else (result, None)
    out = out.unflatten(0, (batch, queries))
    return out if lse is None else (out, lse.view(heads, batch, queries).transpose(0, 1))


def attend_behind_padding(
    tensors: tuple[torch.Tensor, ...],
    lengths: torch.Tensor,
    padding: torch.Tensor,
    page_table: torch.Tensor | None,
    starts: torch.Tensor | None,
    *,
    attend_to_pages: Callable[..., Result],
    longest: int | None,
    **options: Any,
) -> Result:
    """Attend to the keys from ``padding`` to ``lengths`` of each sequence. Pages, and chosen sequences, are read key by key.

    ``attend_to_pages`` does so for packed queries, of which a sequence has at most ``longest``.
    """
    q, *caches = tensors
    batch = lengths.shape[0]
    check_exactly(padding, q, "cache_leftpad", torch.int32, (batch,))
    rows = q if starts is not None else q.flatten(0, 1)
    starts_q = starts if starts is not None else make_starts(q, batch, q.shape[1])
    size = caches[0].shape[1]
    for name, cache in zip(("k_cache", "v_cache"), caches, strict=True):
        if cache.stride(0) != size * cache.stride(1):
            raise NotImplementedError(
                f"{name}: with cache_leftpad its sequences or pages must be adjacent in memory, the stride is {cache.stride(0)}, "
                f"must be {size * cache.stride(1)}"
            )
    k, v = (cache.flatten(0, 1) for cache in caches)
    first = padding.clamp(min=0)
    used = (lengths - first).clamp(min=0)
    if page_table is None:
        starts_k = make_starts(q, batch, size)
        starts_k[:-1] += first.clamp(max=size)
        result = attention_varlen(rows, k, v, starts_q, starts_k, seqused_k=used, **options)
    else:
        capacity = size * page_table.shape[1]
        key = (first.long()[:, None] + torch.arange(capacity, device=q.device)).clamp(max=capacity - 1)
        table = page_table.long().gather(1, key // size) * size + key % size
        table = table.clamp(0, k.shape[0] - 1).to(torch.int32)
        result = attend_to_pages((rows, k.unsqueeze(1), v.unsqueeze(1)), starts_q, used, table, longest, **options)
    return result if starts is not None else unpack(result, q)
