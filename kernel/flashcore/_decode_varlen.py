"""Attention of a few packed queries per sequence over a contiguous or paged cache.

The device reads the lengths, so a captured launch can be replayed with others.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from flashcore._decode import MAX_QUERIES, Arguments, set_workspace_bytes
from flashcore._fp8 import describe_head_dims, is_head_dim
from flashcore._launch import Entry, Launch, Tensors, make_launch
from flashcore._local import make_limits, set_limits
from flashcore._tensors import (
    DTYPES,
    Result,
    check_distinct,
    check_exactly,
    check_lengths,
    check_like_query,
    check_rank,
    check_table,
    get_ordinal,
    get_scale,
    get_strides,
    make_operand,
    to_int,
)

RANK = 3
CACHE_RANK = 4
ROWS, HEADS = 0, 1  # dimensions of the query
MAX_ROWS, MAX_ROWS_WIDE, WIDE = 128, 64, 128
"""Most query rows of a KV head, and of one whose head dimension is above the last number: 16 for each consumer warp."""


def decode_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    *,
    max_queries: int = MAX_QUERIES,
    lengths: torch.Tensor | None = None,
    page_table: torch.Tensor | None = None,
    seqused_q: torch.Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    max_ctas: int = 0,
    window: Sequence[int] | None = None,
    chunk: int = 0,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    loaded_tiles: torch.Tensor | None = None,
) -> Result:
    """Compute ``decode`` for the sequences of 1 to ``max_queries`` queries, on the current stream of ``q``'s device.

    ``q`` is (all queries, heads, d). Sequence i has rows ``cu_seqlens_q[i]`` to ``cu_seqlens_q[i + 1]``, or the first ``seqused_q[i]`` of
    them, int32 on the device. Rows of other sequences keep their content. ``k``, ``v``, ``lengths`` and ``page_table`` are those of ``decode``.
    Pages may hold any number of keys. ``max_queries`` times the heads per KV head is at most 128, for d above 128 at most 64. The log-sum-exp is (heads, all queries).
    """
    scales = (None, None, None)
    tensors = (q, k, v, None, None, out, cu_seqlens_q, seqused_q, lengths, page_table, *scales, sinks, loaded_tiles, lse)
    result: Result = _ENTRY(
        tensors, (causal, scale, max_queries, max_ctas, make_limits(window, chunk, softcap)), return_lse=return_lse
    )
    return result


def count_short_queries(heads: int, kv_heads: int, head_dim: int, page: int) -> int:
    """Return the largest ``max_queries`` for this shape, 0 if ``decode_varlen`` cannot serve it."""
    if page < 1 or not kv_heads or not heads or heads % kv_heads:
        return 0
    return min(MAX_QUERIES, (MAX_ROWS_WIDE if head_dim > WIDE else MAX_ROWS) * kv_heads // heads)


def _prepare(tensors: Tensors, options: tuple[Any, ...]) -> Launch:
    """Check what the C code cannot see, and fill the structure in."""
    q, k, v, _, _, out, _, _, _, page_table, *_, sinks, loaded, _ = tensors
    causal, scale, max_queries, max_ctas, limits = options
    batch = _check_tensors(tensors)
    rows, heads, head_dim = q.shape
    pages, page, kv_heads, _ = k.shape
    arguments = Arguments(
        size=ctypes.sizeof(Arguments),
        device=get_ordinal(q),
        dtype=DTYPES[q.dtype],
        cache_dtype=DTYPES[q.dtype],
        new_dtype=DTYPES[q.dtype],
        max_ctas=to_int(max_ctas, "max_ctas"),
        page_size=0 if page_table is None else page,
        scale=get_scale(scale, head_dim),
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        sq=to_int(max_queries, "max_queries"),
        total_q=rows,
        head_dim=head_dim,
        capacity=page,
        pages=0 if page_table is None else pages,
        table_width=0 if page_table is None else page_table.shape[1],
        q=make_operand(q.stride(), ROWS, ROWS, HEADS),
        k=make_operand(k.stride()),
        v=make_operand(v.stride()),
        out=make_operand(get_strides(out, q.shape), ROWS, ROWS, HEADS),
        table_stride=0 if page_table is None else page_table.stride(0),
    )
    longest = (arguments.sq, page * (1 if page_table is None else page_table.shape[1]))
    set_limits(arguments, q, limits, (sinks, loaded), causal=causal, longest=longest)
    set_workspace_bytes(arguments)
    return make_launch(arguments, q, (heads, rows), workspace_bytes=arguments.workspace_bytes)


_ENTRY = Entry(
    "decode", "flashcore_decode", Arguments, prepare=_prepare,
    operands=("q", "k", "v", "k_new", "v_new", "out"), pointers=("cu_seqlens_q", "seqused_q", "lengths", "page_table", "q_scale", "k_scale", "v_scale", "sinks", "loaded_tiles"),
)  # fmt: skip


def _check_tensors(tensors: Tensors) -> int:
    """Return the number of sequences. ValueError unless all tensors fit together."""
    q, k, v, _, _, out, *lengths, page_table, _, _, _, _, _, lse = tensors
    _check_rows(q, k, v, out)
    starts, used, keys = lengths
    batch = check_lengths(q, starts, {"seqused_q": (used, 0), "lengths": (keys, 0)})
    if page_table is not None:
        check_table(page_table, q, batch)
    elif k.shape[0] != batch:
        raise ValueError(f"k: must have {batch} sequences as cu_seqlens_q, has {k.shape[0]}")
    if out is not None:
        check_distinct(out, "out")
    if lse is not None:
        check_exactly(lse, q, "lse", torch.float32, (q.shape[HEADS], q.shape[ROWS]))
    return batch


def _check_rows(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor | None) -> None:
    for name, tensor, rank in (("q", q, RANK), ("k", k, CACHE_RANK), ("v", v, CACHE_RANK), ("out", out, RANK)):
        if tensor is None:
            continue
        check_like_query(tensor, q, name)
        check_rank(tensor, rank, name)
    head_dim = q.shape[-1]
    if not q.shape[ROWS] or not is_head_dim(head_dim, q):
        raise ValueError(f"q: must be (at least 1 row, heads, {describe_head_dims(q)}), is {tuple(q.shape)}")
    for name, tensor, shape in (("k", k, (*k.shape[:-1], head_dim)), ("v", v, k.shape), ("out", out, q.shape)):
        if tensor is not None and tuple(tensor.shape) != tuple(shape):
            raise ValueError(f"{name}: must have shape {tuple(shape)}, is {tuple(tensor.shape)}")
