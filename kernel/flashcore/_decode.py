"""Attention of a few new tokens over a cache of keys and values, contiguous or in pages, on torch tensors.

A contiguous cache is (batch, room, kv heads, head dimension), a paged one (pages, page size, kv heads, head dimension) with a table
(batch, pages of a sequence) of int32. Any strides are taken as they are, as long as the head dimension is contiguous and every other
stride is a multiple of 16 bytes. What the cache holds at and past a sequence's length is never used, whatever it is.
"""

from __future__ import annotations

import ctypes
import math
import os
from typing import Any

import torch

from flashcore import _library
from flashcore._launch import Entry, Launch, Tensors, words
from flashcore._tensors import (
    DTYPES,
    Operand,
    check_device,
    check_exactly,
    check_like_query,
    number,
    operand,
    ordinal,
    strides,
    whole,
)

RANK = 4
MOST_QUERIES = 16
HEAD_DIMS = (64, 128, 256)
PAGE_SIZES = (16, 64, 128, 256)
CHECK = os.environ.get("FLASHCORE_CHECK", "") not in {"", "0"}
"""Whether every call is checked by default: lengths and page table are read back, which waits for the device."""


Result = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


class Arguments(ctypes.Structure):
    """Mirror of FlashcoreDecodeArguments in flashcore/decode/abi.h."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("causal", ctypes.c_int32),
        ("deterministic", ctypes.c_int32),
        ("splits", ctypes.c_int32),
        ("max_ctas", ctypes.c_int32),
        ("page_size", ctypes.c_int32),
        ("scale", ctypes.c_float),
        ("check", ctypes.c_int32),
        ("batch", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("kv_heads", ctypes.c_int64),
        ("sq", ctypes.c_int64),
        ("head_dim", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("pages", ctypes.c_int64),
        ("table_width", ctypes.c_int64),
        ("new_keys", ctypes.c_int64),
        ("q", Operand),
        ("k", Operand),
        ("v", Operand),
        ("k_new", Operand),
        ("v_new", Operand),
        ("out", Operand),
        ("lengths", ctypes.c_void_p),
        ("page_table", ctypes.c_void_p),
        ("table_stride", ctypes.c_int64),
        ("lse", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
        ("stream", ctypes.c_void_p),
    ]


def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    lengths: torch.Tensor | int | None = None,
    page_table: torch.Tensor | None = None,
    k_new: torch.Tensor | None = None,
    v_new: torch.Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    splits: int = 0,
    deterministic: bool = False,
    max_ctas: int = 0,
    check: bool = CHECK,
) -> Result:
    """softmax(scale * q @ K^T) @ V on the current stream of ``q``'s device; K and V are the caches ``k`` and ``v`` up to each length.

    ``q`` is (batch, 1 to 16, heads, head dimension), and so is the result. ``lengths`` (int32 of shape (batch,), or one number for
    all) counts a sequence's keys before the call; None: all that there is room for. ``k_new`` and ``v_new`` (batch, new, kv heads,
    head dimension) are written into the caches behind those keys first, and seen. ``causal`` is aligned bottom right: the last query
    sees every key, the one before it all but the last, and so on. A query that sees no key gives 0, with a log-sum-exp of -inf.
    ``scale`` defaults to 1/sqrt(head dimension). ``return_lse`` adds the natural log-sum-exp, float32 (batch, heads, queries).
    ``out`` and ``lse`` take the results when given. ``splits`` caps into how many parts a sequence's keys are cut (0: chosen);
    ``deterministic`` makes a sequence's bits independent of the others in its batch. ``max_ctas`` caps the blocks (0: one for each
    multiprocessor). ``check`` refuses lengths and pages outside of the cache with a ValueError, and waits for the device to do so;
    without it what lies outside is taken as the nearest inside.
    """
    tensors = (q, k, v, k_new, v_new, out, lengths, page_table, lse)
    return over_cache(tensors, (causal, scale, splits, deterministic, max_ctas, check), return_lse=return_lse)


def over_cache(tensors: Tensors, options: tuple[Any, ...], *, return_lse: bool) -> Result:
    """What ``decode`` does, its arguments in the order of the structure: a call with names for all of them takes its time."""
    lengths, room = tensors[_LENGTHS], None
    if type(lengths) is int:
        query, table = tensors[0], tensors[_LENGTHS + 1]
        if table is None or not isinstance(query, torch.Tensor):  # the C side needs no tensor of what is the same for all
            lengths, room = None, lengths
        else:
            lengths = torch.full(query.shape[:1], lengths, dtype=torch.int32, device=query.device)
        tensors = (*tensors[:_LENGTHS], lengths, *tensors[_LENGTHS + 1 :])
    result: Result = _ENTRY(tensors, (options, room), return_lse=return_lse)
    return result


def _prepare(tensors: Tensors, options: tuple[Any, ...]) -> Launch:
    """Check what the C side cannot see, and lay the arguments out. ValueError that names the argument."""
    q, k, v, k_new, v_new, out, lengths, page_table, lse = tensors
    (causal, scale, splits, deterministic, max_ctas, check), room = options
    batch, sq, heads, head_dim = _rank(q, "q")
    outer, rows, kv_heads, _ = _rank(k, "k")
    if not 1 <= sq <= MOST_QUERIES or head_dim not in HEAD_DIMS:
        raise ValueError(
            f"q: must be (batch, 1 to {MOST_QUERIES}, heads, one of {', '.join(map(str, HEAD_DIMS))}), is {tuple(q.shape)}"
        )
    if (k_new is None) != (v_new is None):
        raise ValueError(f"{'k_new' if k_new is None else 'v_new'}: new keys and new values come together")
    if page_table is not None and rows not in PAGE_SIZES:
        raise ValueError(f"k: a page must have one of {', '.join(map(str, PAGE_SIZES))} keys, has {rows}")
    new = 0 if k_new is None else _rank(k_new, "k_new")[1]
    cache = (batch if page_table is None else outer, rows, kv_heads, head_dim)
    like_query, appended, lse_shape = tuple(q.shape), (batch, new, kv_heads, head_dim), (batch, heads, sq)
    for name, tensor, shape in (
        ("q", q, like_query), ("k", k, cache), ("v", v, cache), ("out", out, like_query),
        ("k_new", k_new, appended), ("v_new", v_new, appended),
    ):  # fmt: skip
        _check(tensor, q, name, shape)
    if lengths is not None:
        check_exactly(lengths, q, "lengths", torch.int32, (batch,))
    if lse is not None:
        check_exactly(lse, q, "lse", torch.float32, lse_shape)
    if page_table is not None:
        _check_table(page_table, q, batch)
    if room is not None and not 0 <= room <= rows - new:
        raise ValueError(f"lengths: must be from 0 to {rows - new}, which leaves room for {new} new keys, is {room}")
    arguments = Arguments(
        size=ctypes.sizeof(Arguments),
        device=ordinal(q),
        dtype=DTYPES[q.dtype],
        causal=bool(causal),
        deterministic=bool(deterministic),
        splits=whole(splits, "splits"),
        max_ctas=whole(max_ctas, "max_ctas"),
        check=bool(check),
        page_size=0 if page_table is None else rows,
        scale=1.0 / math.sqrt(head_dim) if scale is None else number(scale, "scale"),
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        sq=sq,
        head_dim=head_dim,
        capacity=rows if room is None else room + new,
        pages=0 if page_table is None else outer,
        table_width=0 if page_table is None else page_table.shape[1],
        new_keys=new,
        q=operand(q.stride()),
        k=operand(k.stride()),
        v=operand(v.stride()),
        out=operand(strides(out, q.shape)),
        table_stride=0 if page_table is None else page_table.stride(0),
    )
    if k_new is not None:
        arguments.k_new, arguments.v_new = operand(k_new.stride()), operand(v_new.stride())
    size = _library.library("decode").flashcore_decode_workspace_bytes(ctypes.byref(arguments))
    arguments.workspace_bytes = max(0, size)  # -1: refused, and the launch says why
    return Launch(
        words=words(arguments),
        device=ordinal(q),
        workspace_bytes=arguments.workspace_bytes,
        like_query=q.is_contiguous(),
        out=like_query,
        lse=lse_shape,
    )


_ENTRY = Entry(
    "decode", "flashcore_decode", Arguments, prepare=_prepare,
    operands=("q", "k", "v", "k_new", "v_new", "out"), pointers=("lengths", "page_table"),
)  # fmt: skip
_LENGTHS = _ENTRY.names.index("lengths")


def _rank(tensor: torch.Tensor, name: str) -> tuple[int, ...]:
    if tensor.dim() != RANK:
        raise ValueError(f"{name}: must have {RANK} dimensions, has {tensor.dim()}")
    return tuple(tensor.shape)


def _check(tensor: torch.Tensor | None, query: torch.Tensor, name: str, shape: tuple[int, ...]) -> None:
    if tensor is None:
        return
    check_like_query(tensor, query, name)
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name}: must have shape {shape}, is {tuple(tensor.shape)}")


def _check_table(table: torch.Tensor, query: torch.Tensor, batch: int) -> None:
    check_device(table, query, "page_table")
    if table.dtype != torch.int32 or table.dim() != 2 or table.shape[0] != batch or (table.numel() and table.stride(1) != 1):  # noqa: PLR2004
        raise ValueError(
            f"page_table: must be int32 of shape ({batch}, pages of a sequence) with contiguous rows, is {table.dtype} of shape "
            f"{tuple(table.shape)} with strides {table.stride()}"
        )
