"""Attention to a cache: which kernel serves which query, and how contiguous caches and pages become packed sequences."""

from __future__ import annotations

from typing import Any

import torch

from flashcore._append import append
from flashcore._attention import RANK, attention
from flashcore._decode import CHECK, MAX_INT32, MAX_QUERIES, is_gathered, launch_decode
from flashcore._decode_varlen import count_short_queries, decode_varlen
from flashcore._fp8 import FP8_HEAD_DIM_STEP, FP8_STORAGE, HEAD_DIM_STEP, MAX_HEAD_DIM, is_head_dim
from flashcore._launch import Tensors
from flashcore._local import NOTHING, Local
from flashcore._packed import attend_behind_padding, make_starts, unpack
from flashcore._tensors import Result, check_distinct, to_int
from flashcore._varlen import PAGED_HEAD_DIMS, attention_varlen

_DECODE = f"up to {MAX_QUERIES} queries of a sequence and a head dimension that is a multiple of {FP8_HEAD_DIM_STEP} up to {MAX_HEAD_DIM}"


def attend_to_cache(
    tensors: Tensors,
    *,
    lengths: torch.Tensor | int | None,
    page_table: torch.Tensor | None,
    cu_seqlens_q: torch.Tensor | None,
    max_seqlen_q: int | None,
    scales: Tensors,
    causal: bool,
    scale: float | None,
    splits: int,
    max_ctas: int,
    return_lse: bool,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    new_starts: torch.Tensor | None = None,
    padding: torch.Tensor | None = None,
    local: Local = NOTHING,
) -> Result:
    """Attend to the tensors query, caches of keys and values, new keys and new values.

    Results go into ``out`` and ``lse``, which packed sequences copy.
    """
    q, k_cache, v_cache, k, v = tensors
    try:
        _, queries, _, head_dim = q.shape
        is_prefill = (
            queries > MAX_QUERIES or not is_head_dim(head_dim, k_cache) or (queries > 0 and _needs_packing(k_cache, page_table))
        )
    except (AttributeError, TypeError, ValueError):  # not a query: decode reports what it is
        is_prefill = False
    if not is_prefill and cu_seqlens_q is None and new_starts is None and padding is None:
        everything = (q, k_cache, v_cache, k, v, out, lengths, page_table, *scales, local.sinks, None, lse)
        return launch_decode(everything, (causal, scale, splits, False, max_ctas, CHECK, local.limits), return_lse=return_lse)
    for name, factor in zip(("q_descale", "k_descale", "v_descale"), scales, strict=True):
        if factor is not None:
            raise NotImplementedError(f"{name}: FlashCore takes it only over a cache of E4M3, with {_DECODE}. Pass None")
    if k_cache.dtype in FP8_STORAGE:
        raise NotImplementedError(
            f"k_cache: a cache of E4M3 needs {_DECODE}, and pages of a power of two of keys from 16 on. q has shape {tuple(q.shape)}, "
            f"k_cache {tuple(k_cache.shape)}"
        )
    result = _prefill(
        q, k_cache, v_cache, k=k, v=v, lengths=lengths, page_table=page_table, cu_seqlens_q=cu_seqlens_q,
        max_seqlen_q=max_seqlen_q, new_starts=new_starts, padding=padding, results=(out, lse),
        causal=causal, scale=scale, return_lse=return_lse, max_ctas=max_ctas, **local.name_options(),
    )  # fmt: skip
    final = list(result) if isinstance(result, tuple) else [result]
    for i, (name, given) in enumerate(zip(("out", "lse")[: len(final)], (out, lse), strict=False)):
        if given is not None and given is not final[i]:
            _check(name, given, final[i], tuple(final[i].shape))
            final[i] = given.copy_(final[i])
    return (final[0], final[1]) if return_lse else final[0]


def _prefill(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    *,
    k: torch.Tensor | None,
    v: torch.Tensor | None,
    lengths: torch.Tensor | int | None,
    page_table: torch.Tensor | None,
    cu_seqlens_q: torch.Tensor | None,
    max_seqlen_q: int | None,
    new_starts: torch.Tensor | None,
    padding: torch.Tensor | None,
    results: Tensors,
    **options: Any,
) -> Result:
    """Use the prefill kernel, after PyTorch has appended the new rows. Only equal lengths without pages fill ``results``."""
    _check_new(k, v, new_starts)
    is_packed = page_table is not None or cu_seqlens_q is not None
    if page_table is not None or (is_packed and padding is None):
        _refuse_many_queries(q, k_cache, max_seqlen_q if cu_seqlens_q is not None else q.shape[1])
    if not is_packed:
        _check_caches(q, k_cache, v_cache)
    if k is not None and (is_packed or padding is not None or isinstance(lengths, torch.Tensor)):
        lengths = _append_rows((q, k_cache, v_cache, k, v), lengths, page_table, cu_seqlens_q, new_starts)
        k = v = None
    if padding is not None:
        options["longest"] = q.shape[1] if cu_seqlens_q is None else max_seqlen_q
        return _attend_behind_padding((q, k_cache, v_cache), lengths, padding, page_table, cu_seqlens_q, **options)
    if is_packed:
        return _attend_to_pages((q, k_cache, v_cache), lengths, page_table, cu_seqlens_q, max_seqlen_q, **options)
    if k is None and v is None and isinstance(lengths, torch.Tensor):
        return _prefill_varlen(q, k_cache, v_cache, lengths, **options)
    capacity = k_cache.shape[1]
    end = capacity if lengths is None else lengths
    if type(end) is not int or not 0 <= end <= capacity:
        raise ValueError(f"cache_seqlens: must be a tensor or a whole number from 0 to {capacity}, is {end!r}")
    if k is not None and v is not None:
        end = _append(q, (k_cache, v_cache), (k, v), end)
    return attention(q, k_cache[:, :end], v_cache[:, :end], out=results[0], lse=results[1], **options)


def _refuse_many_queries(q: torch.Tensor, k_cache: torch.Tensor, longest: Any) -> None:
    """Refuse what only the prefill over pages serves, unless it has this head dimension. Nothing is written before."""
    if q.shape[-1] in PAGED_HEAD_DIMS:
        return
    short = count_short_queries(q.shape[-2], k_cache.shape[-2], q.shape[-1], 1)
    if not (type(longest) is int and 0 < longest <= short):
        raise NotImplementedError(
            f"page_table, cu_seqlens_q: a head dimension other than {', '.join(map(str, PAGED_HEAD_DIMS))} needs a max_seqlen_q from 1 to "
            f"{short}, is {longest!r:.40}, q has shape {tuple(q.shape)}"
        )


def _check_new(k: Any, v: Any, starts: Any) -> None:
    """ValueError unless both new keys and new values are given, or nothing that is new."""
    if (k is None) != (v is None):
        raise ValueError(f"{'k' if k is None else 'v'}: is missing. Pass both new keys and new values")
    if starts is not None and k is None:
        raise ValueError("cu_seqlens_k_new: must be None without new keys. Pass k and v")


def _attend_behind_padding(
    tensors: Tensors, lengths: Any, padding: torch.Tensor, page_table: torch.Tensor | None, starts: Any, **options: Any
) -> Result:
    capacity = tensors[1].shape[1] * (1 if page_table is None else page_table.shape[1])
    if not isinstance(lengths, torch.Tensor):
        lengths = torch.full_like(padding, capacity if lengths is None else to_int(lengths, "cache_seqlens"))
    options["attend_to_pages"] = _attend_to_packed
    return attend_behind_padding(tensors, lengths.clamp(max=capacity), padding, page_table, starts, **options)


def _append_rows(
    tensors: Tensors,
    lengths: torch.Tensor | int | None,
    page_table: torch.Tensor | None,
    cu_seqlens_q: torch.Tensor | None,
    new_starts: torch.Tensor | None,
) -> torch.Tensor:
    """Append to pages, or to sequences of different lengths, and return the new lengths."""
    q, k_cache, v_cache, k, v = tensors
    batch = _check_before_append(q, (k_cache, v_cache), cu_seqlens_q)
    if not isinstance(lengths, torch.Tensor):
        lengths = torch.full(
            (batch,), min(max(to_int(lengths, "cache_seqlens"), -1), MAX_INT32), dtype=torch.int32, device=q.device
        )
    if tuple(lengths.shape) != (batch,):
        raise ValueError(f"cache_seqlens: must have shape {(batch,)}, has {tuple(lengths.shape)}")
    return append((k_cache, v_cache), (k, v), lengths, page_table, new_starts)


def _check_before_append(q: torch.Tensor, caches: Tensors, cu_seqlens_q: torch.Tensor | None) -> int:
    """Return the number of sequences. Refuse what the prefill refuses, before anything is written."""
    if q.dim() != RANK - (cu_seqlens_q is not None):
        raise ValueError(f"q: must have {RANK - (cu_seqlens_q is not None)} dimensions, has {q.dim()}")
    if not is_head_dim(q.shape[-1], q):
        raise ValueError(f"q: the head dimension must be a multiple of {HEAD_DIM_STEP} up to {MAX_HEAD_DIM}, is {q.shape[-1]}")
    for name, cache in zip(("k_cache", "v_cache"), caches, strict=True):
        _check(name, cache, q, (*caches[0].shape[:-1], q.shape[-1]))
    return q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.numel() - 1


def _needs_packing(k_cache: torch.Tensor, page_table: torch.Tensor | None) -> bool:
    """Return whether decode reads these pages only for packed queries."""
    return page_table is not None and is_gathered(k_cache.shape[1])


def _attend_to_pages(
    tensors: Tensors,
    lengths: torch.Tensor | int | None,
    page_table: torch.Tensor | None,
    cu_seqlens_q: torch.Tensor | None,
    max_seqlen_q: int | None,
    **options: Any,
) -> Result:
    """Attend to caches in pages. A contiguous cache has one page per sequence."""
    q, k_cache, v_cache = tensors
    packed, queries, batch = q, 0, q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.numel() - 1
    if cu_seqlens_q is None:
        _check_rank("q", q)
        packed, queries = q.flatten(0, 1), q.shape[1]
        cu_seqlens_q, max_seqlen_q = make_starts(q, batch, queries), queries
    if page_table is None:
        _check("k_cache", k_cache, q, (batch, *k_cache.shape[1:]))
        page_table = torch.arange(0, batch, 1, dtype=torch.int32, device=q.device).view(batch, 1)
    if type(lengths) is int:
        lengths = torch.full((batch,), min(max(lengths, -1), MAX_INT32), dtype=torch.int32, device=q.device)
    result = _attend_to_packed((packed, k_cache, v_cache), cu_seqlens_q, lengths, page_table, max_seqlen_q, **options)
    return result if packed is q else unpack(result, q)


def _attend_to_packed(
    tensors: Tensors,
    starts: torch.Tensor,
    lengths: torch.Tensor | None,
    page_table: torch.Tensor,
    longest: int | None,
    **options: Any,
) -> Result:
    """Attend to pages: sequences of few queries as decode, the others as prefill.

    Each kernel reads the numbers of queries on the device and leaves the other's rows alone. So only ``longest``, a bound that holds
    for every replay of a graph, may spare a launch.
    """
    q, k_cache, v_cache = tensors
    known_shape = q.dim() == RANK - 1 and k_cache.dim() == RANK and q.shape[0] > 0  # else the prefill says what is wrong
    short = count_short_queries(q.shape[1], k_cache.shape[2], q.shape[2], k_cache.shape[1]) if known_shape else 0
    known = longest if type(longest) is int and longest > 0 else None
    if known is not None and known <= short:
        return decode_varlen(q, k_cache, v_cache, starts, max_queries=known, lengths=lengths, page_table=page_table, **options)
    few = short > 0 and starts.numel() - 1 > 1 and not (known is not None and known * (starts.numel() - 1) == q.shape[0])
    if not few:  # all sequences have the same number of queries, which are many
        return attention_varlen(q, k_cache, v_cache, starts, seqused_k=lengths, page_table=page_table, **options)
    return_lse = options.pop("return_lse")
    lse = torch.empty((q.shape[1], q.shape[0]), dtype=torch.float32, device=q.device) if return_lse else None
    out = decode_varlen(
        q, k_cache, v_cache, starts, max_queries=short, lengths=lengths, page_table=page_table, lse=lse, **options
    )
    assert isinstance(out, torch.Tensor)
    attention_varlen(
        q, k_cache, v_cache, starts, min_queries=short + 1, seqused_k=lengths, page_table=page_table, out=out, lse=lse, **options
    )
    return out if lse is None else (out, lse)


def _append(q: torch.Tensor, caches: tuple[torch.Tensor, ...], new: tuple[torch.Tensor, ...], start: int) -> int:
    """Append the new rows and return the new length. ValueError before anything is written."""
    capacity = caches[0].shape[1]
    _check_rank("k", new[0])
    for name, rows in zip(("k", "v"), new, strict=True):
        _check(name, rows, q, (q.shape[0], new[0].shape[1], *caches[0].shape[2:]))
    end = start + new[0].shape[1]
    if end > capacity:
        raise ValueError(f"cache_seqlens: {start} and {end - start} new keys exceed the capacity {capacity}")
    for name, cache in zip(("k_cache", "v_cache"), caches, strict=True):
        check_distinct(cache, name)
    for cache, rows in zip(caches, new, strict=True):
        cache[:, start:end] = rows
    return end


def _check_caches(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor) -> None:
    for name, tensor in (("q", q), ("k_cache", k_cache), ("v_cache", v_cache)):
        _check_rank(name, tensor)
    for name, tensor in (("k_cache", k_cache), ("v_cache", v_cache)):
        _check(name, tensor, q, (q.shape[0], *k_cache.shape[1:3], q.shape[3]))
    if not is_head_dim(q.shape[3], q):  # before anything is written to the cache
        raise ValueError(f"q: the head dimension must be a multiple of {HEAD_DIM_STEP} up to {MAX_HEAD_DIM}, is {q.shape[3]}")


def _check_rank(name: str, tensor: torch.Tensor) -> None:
    if not isinstance(tensor, torch.Tensor) or tensor.dim() != RANK:
        rank = f"has {tensor.dim()}" if isinstance(tensor, torch.Tensor) else f"is {type(tensor).__name__}"
        raise ValueError(f"{name}: must have {RANK} dimensions, {rank}")


def _check(name: str, tensor: torch.Tensor, q: torch.Tensor, shape: tuple[int, ...]) -> None:
    _check_rank(name, tensor)
    if tuple(tensor.shape) != shape or tensor.dtype != q.dtype:
        raise ValueError(f"{name}: must be {q.dtype} of shape {shape} like q, is {tensor.dtype} of shape {tuple(tensor.shape)}")


def _prefill_varlen(
    q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, lengths: torch.Tensor, **options: Any
) -> Result:
    """Treat a contiguous cache as packed sequences, each with its own length."""
    batch, queries, _, head_dim = q.shape
    adjacent = all(cache.stride(0) == cache.shape[1] * cache.stride(1) for cache in (k_cache, v_cache))
    if not adjacent and head_dim in PAGED_HEAD_DIMS:
        return _attend_to_pages((q, k_cache, v_cache), lengths, None, None, None, **options)
    for name, cache in (("k_cache", k_cache), ("v_cache", v_cache)):
        if cache.stride(0) != cache.shape[1] * cache.stride(1):
            raise NotImplementedError(
                f"{name}: q of shape {tuple(q.shape)} and a tensor as cache_seqlens need sequences that are adjacent in memory,"
                f" the batch stride is {cache.stride(0)}, must be {cache.shape[1] * cache.stride(1)}"
            )
    starts_q, starts_k = (make_starts(q, batch, length) for length in (queries, k_cache.shape[1]))
    result = attention_varlen(
        q.flatten(0, 1), k_cache.flatten(0, 1), v_cache.flatten(0, 1), starts_q, starts_k,
        seqused_k=lengths, **options,
    )  # fmt: skip
    return unpack(result, q)
