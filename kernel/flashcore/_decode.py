"""Attention of a few new tokens over a contiguous or paged cache, on torch tensors.

Strides are as in ``attention``. Cache content past a sequence's length is never used.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

import torch

from flashcore import _library
from flashcore._fp8 import (
    CODES,
    FP8_STORAGE,
    as_bytes,
    check_scales,
    check_type,
    describe_head_dims,
    is_head_dim,
    set_scales,
)
from flashcore._launch import MISSING, Entry, Launch, Tensors, make_launch
from flashcore._local import NO_LIMITS, Structure, make_limits, set_limits
from flashcore._tensors import (
    Operand,
    Result,
    check_columns,
    check_device,
    check_distinct,
    check_exactly,
    check_rank,
    check_table,
    get_ordinal,
    get_scale,
    get_strides,
    make_operand,
    to_int,
)

RANK = 4
MAX_QUERIES = 16
MAX_INT32 = 2**31 - 1
MIN_TMA_PAGE = 16
"""Fewer keys, and numbers that are not a power of two, are copied key by key."""
CHECK = os.environ.get("FLASHCORE_CHECK", "") not in {"", "0"}
"""The default of ``check``."""


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
        ("total_q", ctypes.c_int64),
        ("q", Operand),
        ("k", Operand),
        ("v", Operand),
        ("k_new", Operand),
        ("v_new", Operand),
        ("out", Operand),
        ("cu_seqlens_q", ctypes.c_void_p),
        ("seqused_q", ctypes.c_void_p),
        ("lengths", ctypes.c_void_p),
        ("page_table", ctypes.c_void_p),
        ("q_scale", ctypes.c_void_p),
        ("k_scale", ctypes.c_void_p),
        ("v_scale", ctypes.c_void_p),
        ("sinks", ctypes.c_void_p),
        ("loaded_tiles", ctypes.c_void_p),
        ("table_stride", ctypes.c_int64),
        ("lse", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
        ("stream", ctypes.c_void_p),
        ("cache_dtype", ctypes.c_int32),
        ("new_dtype", ctypes.c_int32),
        *((f"{name}_scale_{kind}_stride", ctypes.c_int64) for name in "qkv" for kind in ("batch", "head")),
        *((f"{name}_scale_per_key", ctypes.c_int32) for name in "kv"),
        *((f"{name}_scale_key_stride", ctypes.c_int64) for name in "kv"),
        ("local", Structure),
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
    q_scale: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    splits: int = 0,
    deterministic: bool = False,
    max_ctas: int = 0,
    check: bool = CHECK,
    window: Sequence[int] | None = None,
    chunk: int = 0,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    loaded_tiles: torch.Tensor | None = None,
) -> Result:
    """Compute softmax(scale * q @ K^T) @ V over caches, on the current stream of ``q``'s device.

    Args:
        q: Queries (batch, 1 to 16, heads, d), float16, bfloat16, or over E4M3 caches also E4M3. d is a multiple
            of 8 up to 256, over E4M3 caches of 16.
        k: Cache of keys (batch, capacity, kv heads, d), or with ``page_table`` (pages, page size, kv heads, d). Of the query's
            type, or E4M3 (float8_e4m3fn, or the same bytes as uint8).
        v: Cache of values, like ``k``.
        lengths: Keys of each sequence before the call, int32 (batch,), or one number for all. None: as many as fit.
        page_table: Pages of each sequence, int32 (batch, pages of a sequence).
        k_new: Keys to append first, (batch, new, kv heads, d).
        v_new: Values to append first, like ``k_new``.
        causal: As in ``attention``.
        scale: As in ``attention``.
        return_lse: As in ``attention``.
        out: As in ``attention``.
        lse: Receives the log-sum-exp.
        q_scale: Factor of E4M3 queries, float32 (batch, kv heads), any strides. None: 1.
        k_scale: Factor of the E4M3 keys, the same, or of each key, the shape of ``k`` without d, or of each page, (pages, 1, kv heads).
            New keys are stored as ``(x / scale)``, clamped to 448 and rounded.
        v_scale: Factor of the E4M3 values, the same.
        splits: Most parts of a sequence's keys. 0: chosen by the launcher.
        deterministic: Make a sequence's bits independent of the others in its batch.
        max_ctas: Most blocks. 0: as many as run at once.
        check: Read ``lengths`` and ``page_table`` back, and refuse entries outside the cache. This waits for the device.
            Without it the nearest entry inside is used, and new keys that do not fit are dropped.
        window: As in ``attention``. The caches then have 16 bits.
        chunk: As in ``attention``.
        softcap: As in ``attention``.
        sinks: As in ``attention``.
        loaded_tiles: As in ``attention``.
    """
    tensors = (q, k, v, k_new, v_new, out, lengths, page_table, q_scale, k_scale, v_scale, sinks, loaded_tiles, lse)
    options = (causal, scale, splits, deterministic, max_ctas, check, make_limits(window, chunk, softcap))
    return launch_decode(tensors, options, return_lse=return_lse)


def launch_decode(tensors: Tensors, options: tuple[Any, ...], *, return_lse: bool) -> Result:
    """Do the same as ``decode``, without the cost of keyword arguments."""
    lengths, common_length = tensors[_LENGTHS], None
    if type(lengths) is int:
        query, table = tensors[0], tensors[_LENGTHS + 1]
        common_length, lengths = lengths, None
        if table is not None and isinstance(query, torch.Tensor):  # without pages, the capacity expresses a common length
            value = min(max(common_length, -1), MAX_INT32)  # _prepare refuses what does not fit
            lengths = torch.full(query.shape[:1], value, dtype=torch.int32, device=query.device)
        tensors = (*tensors[:_LENGTHS], lengths, *tensors[_LENGTHS + 1 :])
    if getattr(tensors[1], "dtype", None) in FP8_STORAGE:
        tensors = as_bytes(tensors)
    result: Result = _ENTRY(tensors, (options, common_length), return_lse=return_lse)
    return result


def repeat_decode(tensors: Tensors, causal: Any, scale: Any, splits: Any, return_lse: bool) -> Any:
    """Repeat a launch of ``launch_decode`` with other addresses, or return MISSING. Most calls of a server are of this kind."""
    if type(tensors[_LENGTHS]) is int or (tensors[3] is not None and tensors[_LENGTHS] is None):
        return MISSING
    return _ENTRY(tensors, ((causal, scale, splits, False, 0, CHECK, NO_LIMITS), None), return_lse=return_lse, repeat=True)


def _prepare(tensors: Tensors, options: tuple[Any, ...]) -> Launch:
    """Check what the C code cannot see, and fill the structure in."""
    q, k, v, k_new, v_new, out, _, page_table, *scales, sinks, loaded, _ = tensors
    (causal, scale, splits, deterministic, max_ctas, check, limits), common_length = options
    batch, sq, heads, head_dim = _get_shape(q, "q")
    outer, rows, kv_heads, _ = _get_shape(k, "k")
    new = _check_tensors(tensors)
    capacity = rows if page_table is None else rows * page_table.shape[1]
    if common_length is not None and not 0 <= common_length <= capacity - new:
        raise ValueError(f"lengths: must be from 0 to {capacity - new}, so that {new} new keys fit, is {common_length}")
    arguments = Arguments(
        size=ctypes.sizeof(Arguments),
        device=get_ordinal(q),
        dtype=CODES[q.dtype],
        cache_dtype=CODES[k.dtype],
        new_dtype=CODES[q.dtype if k_new is None else k_new.dtype],
        deterministic=bool(deterministic),
        splits=to_int(splits, "splits"),
        max_ctas=to_int(max_ctas, "max_ctas"),
        check=bool(check),
        page_size=0 if page_table is None else rows,
        scale=get_scale(scale, head_dim),
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        sq=sq,
        head_dim=head_dim,
        capacity=capacity if common_length is None else common_length + new,
        pages=0 if page_table is None else outer,
        table_width=0 if page_table is None else page_table.shape[1],
        new_keys=new,
        q=make_operand(q.stride()),
        k=make_operand(k.stride()),
        v=make_operand(v.stride()),
        out=make_operand(get_strides(out, q.shape)),
        table_stride=0 if page_table is None else page_table.stride(0),
    )
    set_scales(arguments, scales)
    if k_new is not None:
        arguments.k_new, arguments.v_new = make_operand(k_new.stride()), make_operand(v_new.stride())
    set_limits(arguments, q, limits, (sinks, loaded), causal=causal, longest=(sq, arguments.capacity))
    set_workspace_bytes(arguments)
    return make_launch(arguments, q, (batch, heads, sq), workspace_bytes=arguments.workspace_bytes)


def set_workspace_bytes(arguments: Arguments) -> None:
    """Ask the library."""
    size = _library.get_library("decode").flashcore_decode_workspace_bytes(ctypes.byref(arguments))
    arguments.workspace_bytes = max(0, size)  # -1: bad arguments, which the launch reports


_ENTRY = Entry(
    "decode", "flashcore_decode", Arguments, prepare=_prepare,
    operands=("q", "k", "v", "k_new", "v_new", "out"), pointers=("lengths", "page_table", "q_scale", "k_scale", "v_scale", "sinks", "loaded_tiles"),
)  # fmt: skip
_LENGTHS = _ENTRY.names.index("lengths")


def _check_tensors(tensors: Tensors) -> int:
    """Check the tensors together, and return the number of new keys of a sequence."""
    q, k, v, k_new, v_new, out, lengths, page_table, *_, lse = tensors
    batch, sq, heads, head_dim = q.shape
    outer, rows, kv_heads, _ = k.shape
    if not 1 <= sq <= MAX_QUERIES or not is_head_dim(head_dim, k):
        raise ValueError(f"q: must be (batch, 1 to {MAX_QUERIES}, heads, {describe_head_dims(k)}), is {tuple(q.shape)}")
    if (k_new is None) != (v_new is None):
        raise ValueError(f"{'k_new' if k_new is None else 'v_new'}: is missing. Pass both new keys and new values")
    if page_table is not None and is_gathered(rows):
        raise ValueError(
            f"k: pages must hold a power of two of keys from {MIN_TMA_PAGE} on, unless queries are packed, hold {rows}"
        )
    new = 0 if k_new is None else _get_shape(k_new, "k_new")[1]
    cache, like_new = (batch if page_table is None else outer, rows, kv_heads, head_dim), (batch, new, kv_heads, head_dim)
    for name, tensor, shape, is_written in (
        ("q", q, q.shape, False), ("k", k, cache, new > 0), ("v", v, cache, new > 0), ("out", out, q.shape, True),
        ("k_new", k_new, like_new, False), ("v_new", v_new, like_new, False),
    ):  # fmt: skip
        if tensor is not None:
            _check(tensors, tensor, name, tuple(shape), is_written=is_written)
    check_scales(tensors, (batch, kv_heads), is_paged=page_table is not None)
    if lengths is not None:
        check_exactly(lengths, q, "lengths", torch.int32, (batch,))
    if lse is not None:
        check_exactly(lse, q, "lse", torch.float32, (batch, heads, sq))
    if page_table is not None:
        check_table(page_table, q, batch)
    return new


def is_gathered(page: int) -> bool:
    """Return whether decode copies the keys of such pages one by one."""
    return page < MIN_TMA_PAGE or page & (page - 1) != 0


def _get_shape(tensor: torch.Tensor, name: str) -> tuple[int, ...]:
    check_rank(tensor, RANK, name)
    return tuple(tensor.shape)


def _check(tensors: Tensors, tensor: torch.Tensor, name: str, shape: tuple[int, ...], *, is_written: bool) -> None:
    check_device(tensor, tensors[0], name)
    check_type(tensors, name, tensor)
    check_columns(tensor, name)
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name}: must have shape {shape}, is {tuple(tensor.shape)}")
    if is_written:
        check_distinct(tensor, name)
