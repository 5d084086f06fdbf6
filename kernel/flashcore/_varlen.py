"""Forward attention on packed sequences of different lengths.

The device reads the lengths, so a captured launch can be replayed with others.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from flashcore import _library
from flashcore._launch import Entry, Launch, Tensors, make_launch
from flashcore._local import Structure, make_limits, set_limits
from flashcore._tensors import (
    DTYPES,
    Operand,
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
ROWS, HEADS = 0, 1  # dimensions
PAGED_RANK = 4
PAGED_HEAD_DIMS = (64, 128, 256)


class Arguments(ctypes.Structure):
    """Mirror of FlashcoreVarlenArguments in flashcore/attention/abi.h."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("causal", ctypes.c_int32),
        ("max_ctas", ctypes.c_int32),
        ("scale", ctypes.c_float),
        ("batch", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("kv_heads", ctypes.c_int64),
        ("total_q", ctypes.c_int64),
        ("total_k", ctypes.c_int64),
        ("head_dim", ctypes.c_int64),
        ("page_size", ctypes.c_int64),
        ("pages", ctypes.c_int64),
        ("table_width", ctypes.c_int64),
        ("table_stride", ctypes.c_int64),
        ("min_queries", ctypes.c_int64),
        ("q", Operand),
        ("k", Operand),
        ("v", Operand),
        ("out", Operand),
        ("cu_seqlens_q", ctypes.c_void_p),
        ("cu_seqlens_k", ctypes.c_void_p),
        ("seqused_q", ctypes.c_void_p),
        ("seqused_k", ctypes.c_void_p),
        ("page_table", ctypes.c_void_p),
        ("sinks", ctypes.c_void_p),
        ("loaded_tiles", ctypes.c_void_p),
        ("lse", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
        ("stream", ctypes.c_void_p),
        ("local", Structure),
    ]


def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    seqused_q: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None,
    page_table: torch.Tensor | None = None,
    return_lse: bool = False,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    max_ctas: int = 0,
    min_queries: int = 0,
    window: Sequence[int] | None = None,
    chunk: int = 0,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    loaded_tiles: torch.Tensor | None = None,
) -> Result:
    """Compute attention of every sequence separately, on the current stream of ``q``'s device.

    ``q`` is (all queries, heads, d), ``k`` and ``v`` are (all keys, kv heads, d). Sequence i has rows ``cu_seqlens[i]`` to
    ``cu_seqlens[i + 1]``, or the first ``seqused[i]`` of them, int32 on the device. Lengths beyond the rows are cut off. Rows of ``out``
    outside every sequence keep their content. The log-sum-exp is (heads, all queries). The rest is as in ``attention``.

    With ``page_table``, int32 (sequences, pages of a sequence), ``k`` and ``v`` are (pages, keys of a page, kv heads, d), d is 64, 128 or
    256, and there is no ``cu_seqlens_k``. Sequence i has ``seqused_k[i]`` keys, by default all of its pages. Entries past them are not read.
    Sequences of fewer than ``min_queries`` queries keep their rows, because ``decode_varlen`` computes them faster.
    """
    tensors = (q, k, v, out, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, page_table, sinks, loaded_tiles, lse)
    result: Result = _ENTRY(
        tensors, (causal, scale, max_ctas, min_queries, make_limits(window, chunk, softcap)), return_lse=return_lse
    )
    return result


def _prepare(tensors: Tensors, options: tuple[Any, ...]) -> Launch:
    """Check what the C code cannot see, and fill the structure in."""
    q, k, v, out, *lengths, page_table, sinks, loaded, lse = tensors
    causal, scale, max_ctas, min_queries, limits = options
    paged = page_table is not None
    _check_rows(q, k, v, out, paged=paged)
    (rows, heads, head_dim), kv_heads = q.shape, k.shape[-2]
    batch = _check_lengths(q, lengths, paged=paged)
    if paged:
        check_table(page_table, q, batch)
    if out is not None:
        check_distinct(out, "out")
    if lse is not None:
        check_exactly(lse, q, "lse", torch.float32, (heads, rows))
    arguments = Arguments(
        size=ctypes.sizeof(Arguments),
        device=get_ordinal(q),
        dtype=DTYPES[q.dtype],
        max_ctas=to_int(max_ctas, "max_ctas"),
        scale=get_scale(scale, head_dim),
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        total_q=rows,
        total_k=0 if paged else k.shape[0],
        head_dim=head_dim,
        page_size=k.shape[1] if paged else 0,
        pages=k.shape[0] if paged else 0,
        table_width=page_table.shape[1] if paged else 0,
        table_stride=page_table.stride(0) if paged else 0,
        min_queries=to_int(min_queries, "min_queries"),
        q=make_operand(q.stride(), ROWS, ROWS, HEADS),
        k=make_operand(k.stride(), *((0, 1, 2) if paged else (ROWS, ROWS, HEADS))),
        v=make_operand(v.stride(), *((0, 1, 2) if paged else (ROWS, ROWS, HEADS))),
        out=make_operand(get_strides(out, q.shape), ROWS, ROWS, HEADS),
    )
    longest = (rows, k.shape[1] * page_table.shape[1] if paged else k.shape[0])
    set_limits(arguments, q, limits, (sinks, loaded), causal=causal, longest=longest)
    size = _library.get_library("attention").flashcore_attention_varlen_workspace_bytes(ctypes.byref(arguments))
    arguments.workspace_bytes = size
    return make_launch(arguments, q, (heads, rows), workspace_bytes=size)


_ENTRY = Entry(
    "attention", "flashcore_attention_varlen", Arguments, prepare=_prepare,
    operands=("q", "k", "v", "out"), pointers=("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "page_table", "sinks", "loaded_tiles"),
)  # fmt: skip


def _check_rows(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor | None, *, paged: bool) -> None:
    """ValueError unless the tensors fit together."""
    rows, pages = "(rows, heads, head dimension)", "(pages, keys, heads, head dimension)"
    like_keys = (PAGED_RANK, pages) if paged else (RANK, rows)
    for name, tensor, (rank, dimensions) in (
        ("q", q, (RANK, rows)),
        ("k", k, like_keys),
        ("v", v, like_keys),
        ("out", out, (RANK, rows)),
    ):
        if tensor is None:
            continue
        check_like_query(tensor, q, name)
        check_rank(tensor, rank, name, dimensions)
    for name, tensor, like in (("out", out, q), ("v", v, k)):
        if tensor is not None and tensor.shape != like.shape:
            raise ValueError(
                f"{name}: {pages if like is k and paged else '(rows, heads, head_dim)'} must be {tuple(like.shape)}, is {tuple(tensor.shape)}"
            )
    head_dim = q.shape[2]
    if k.shape[-1] != head_dim:
        raise ValueError(f"k: the head dimension must be {head_dim} as q's, is {k.shape[-1]}")
    if paged and (head_dim not in PAGED_HEAD_DIMS or not k.shape[1]):
        raise ValueError(
            f"k: pages must hold at least 1 key, of head dimension {', '.join(map(str, PAGED_HEAD_DIMS))}, have shape {tuple(k.shape)}"
        )


def _check_lengths(q: torch.Tensor, lengths: Sequence[torch.Tensor | None], *, paged: bool) -> int:
    """Return the number of sequences. ValueError unless all tensors agree, in int32."""
    if paged != (lengths[1] is None):
        needed = "must be None with a page table. Pass seqused_k" if paged else "is missing"
        raise ValueError(f"cu_seqlens_k: {needed}")
    counts = {"cu_seqlens_k": (lengths[1], 1), "seqused_q": (lengths[2], 0), "seqused_k": (lengths[3], 0)}
    return check_lengths(q, lengths[0], counts)
