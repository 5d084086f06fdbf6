"""Forward attention on packed sequences of different lengths.

The device reads the lengths, so a captured launch can be replayed with others.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import torch

from flashcore import _library
from flashcore._launch import Entry, Launch, Tensors, to_words
from flashcore._tensors import (
    DTYPES,
    Operand,
    Result,
    check_distinct,
    check_exactly,
    check_like_query,
    get_ordinal,
    get_strides,
    make_operand,
    to_float,
    to_int,
)

RANK = 3
ROWS, HEADS = 0, 1  # dimensions


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
        ("q", Operand),
        ("k", Operand),
        ("v", Operand),
        ("out", Operand),
        ("cu_seqlens_q", ctypes.c_void_p),
        ("cu_seqlens_k", ctypes.c_void_p),
        ("seqused_q", ctypes.c_void_p),
        ("seqused_k", ctypes.c_void_p),
        ("lse", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
        ("stream", ctypes.c_void_p),
    ]


def attention_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    seqused_q: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None,
    return_lse: bool = False,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    max_ctas: int = 0,
) -> Result:
    """Compute attention of every sequence separately, on the current stream of ``q``'s device.

    ``q`` is (all queries, heads, d), ``k`` and ``v`` are (all keys, kv heads, d). Sequence i has rows ``cu_seqlens[i]`` to
    ``cu_seqlens[i + 1]``, or the first ``seqused[i]`` of them, int32 on the device. Lengths beyond the rows are cut off. Rows of ``out``
    outside every sequence keep their content. The log-sum-exp is (heads, all queries). The rest is as in ``attention``.
    """
    tensors = (q, k, v, out, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, lse)
    result: Result = _ENTRY(tensors, (causal, scale, max_ctas), return_lse=return_lse)
    return result


def _prepare(tensors: Tensors, options: tuple[Any, ...]) -> Launch:
    """Check what the C code cannot see, and fill the structure in."""
    q, k, v, out, *lengths, lse = tensors
    causal, scale, max_ctas = options
    for name, tensor in (("q", q), ("k", k), ("v", v), ("out", out)):
        if tensor is None:
            continue
        check_like_query(tensor, q, name)
        if tensor.dim() != RANK:
            raise ValueError(f"{name}: must have {RANK} dimensions (rows, heads, head dimension), has {tensor.dim()}")
    for name, tensor, like in (("out", out, q), ("v", v, k)):
        if tensor is not None and tensor.shape != like.shape:
            raise ValueError(f"{name}: (rows, heads, head_dim) must be {tuple(like.shape)}, is {tuple(tensor.shape)}")
    (rows, heads, head_dim), (keys, kv_heads, _) = q.shape, k.shape
    if k.shape[2] != head_dim:
        raise ValueError(f"k: the head dimension must be {head_dim} as q's, is {k.shape[2]}")
    batch = _check_lengths(q, lengths)
    if out is not None:
        check_distinct(out, "out")
    if lse is not None:
        check_exactly(lse, q, "lse", torch.float32, (heads, rows))
    arguments = Arguments(
        size=ctypes.sizeof(Arguments),
        device=get_ordinal(q),
        dtype=DTYPES[q.dtype],
        causal=bool(causal),
        max_ctas=to_int(max_ctas, "max_ctas"),
        scale=1.0 / math.sqrt(head_dim) if scale is None else to_float(scale, "scale"),
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        total_q=rows,
        total_k=keys,
        head_dim=head_dim,
        q=make_operand(q.stride(), ROWS, ROWS, HEADS),
        k=make_operand(k.stride(), ROWS, ROWS, HEADS),
        v=make_operand(v.stride(), ROWS, ROWS, HEADS),
        out=make_operand(get_strides(out, q.shape), ROWS, ROWS, HEADS),
    )
    size = _library.get_library("attention").flashcore_attention_varlen_workspace_bytes(ctypes.byref(arguments))
    arguments.workspace_bytes = size
    return Launch(
        words=to_words(arguments),
        device=get_ordinal(q),
        workspace_bytes=size,
        like_query=q.is_contiguous(),
        out=tuple(q.shape),
        lse=(heads, rows),
    )


_ENTRY = Entry(
    "attention", "flashcore_attention_varlen", Arguments, prepare=_prepare,
    operands=("q", "k", "v", "out"), pointers=("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k"),
)  # fmt: skip


def _check_lengths(q: torch.Tensor, lengths: Sequence[torch.Tensor | None]) -> int:
    """Return the number of sequences. ValueError unless all tensors agree, in int32."""
    cumulative = lengths[0]
    if cumulative is None or cumulative.dim() != 1 or not cumulative.numel():
        shape = None if cumulative is None else tuple(cumulative.shape)
        raise ValueError(f"cu_seqlens_q: must have shape (batch + 1,), is {shape}")
    batch = cumulative.numel() - 1
    for name, tensor, count in zip(
        ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k"), lengths, (batch + 1, batch + 1, batch, batch), strict=True
    ):
        if tensor is not None:
            check_exactly(tensor, q, name, torch.int32, (count,))
    return batch
