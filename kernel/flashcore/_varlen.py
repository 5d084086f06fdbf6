"""Forward attention on sequences of different lengths, whose rows lie one behind the other: (rows, heads, head dimension).

Strides are taken as they are, as in ``attention``. Nothing is padded and nothing comes back to the host: the lengths are read on
the device, so a launch can be captured into a graph and replayed with other lengths.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import torch

from flashcore import _library
from flashcore._launch import Entry, Launch, Tensors, words
from flashcore._tensors import DTYPES, Operand, check_exactly, check_like_query, number, operand, ordinal, strides, whole

RANK = 3
ROWS, HEADS = 0, 1


Result = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


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
    """softmax(scale * q @ k^T) @ v of every sequence by itself, launched on the current stream of ``q``'s device.

    q (all queries, heads, d), k and v (all keys, kv heads, d). Sequence i has the queries from ``cu_seqlens_q[i]`` to before
    ``cu_seqlens_q[i + 1]``, of these the first ``seqused_q[i]`` if that is given, and keys likewise: int32 on the device, of
    batch + 1 and batch numbers. What they say beyond the rows that there are is cut off; rows of ``out`` that belong to no
    sequence stay as they were.

    ``causal`` is aligned bottom right in every sequence; a row that sees no key gives 0, with a log-sum-exp of -inf.
    ``return_lse`` adds the natural log-sum-exp, float32 of shape (heads, all queries). The rest is as in ``attention``.
    """
    tensors = (q, k, v, out, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, lse)
    result: Result = _ENTRY(tensors, (causal, scale, max_ctas), return_lse=return_lse)
    return result


def _prepare(tensors: Tensors, options: tuple[Any, ...]) -> Launch:
    """Check what the C side cannot see, and lay the arguments out. ValueError that names the argument."""
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
    if lse is not None:
        check_exactly(lse, q, "lse", torch.float32, (heads, rows))
    arguments = Arguments(
        size=ctypes.sizeof(Arguments),
        device=ordinal(q),
        dtype=DTYPES[q.dtype],
        causal=bool(causal),
        max_ctas=whole(max_ctas, "max_ctas"),
        scale=1.0 / math.sqrt(head_dim) if scale is None else number(scale, "scale"),
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        total_q=rows,
        total_k=keys,
        head_dim=head_dim,
        q=operand(q.stride(), ROWS, ROWS, HEADS),
        k=operand(k.stride(), ROWS, ROWS, HEADS),
        v=operand(v.stride(), ROWS, ROWS, HEADS),
        out=operand(strides(out, q.shape), ROWS, ROWS, HEADS),
    )
    size = _library.library("attention").flashcore_attention_varlen_workspace_bytes(ctypes.byref(arguments))
    arguments.workspace_bytes = size
    return Launch(
        words=words(arguments),
        device=ordinal(q),
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
    """How many sequences there are. ValueError unless all four tell the same, in int32."""
    cumulative = lengths[0]
    if cumulative is None or cumulative.dim() != 1 or not cumulative.numel():
        raise ValueError("cu_seqlens_q: must have one dimension of batch + 1 numbers")
    batch = cumulative.numel() - 1
    for name, tensor, count in zip(
        ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k"), lengths, (batch + 1, batch + 1, batch, batch), strict=True
    ):
        if tensor is not None:
            check_exactly(tensor, q, name, torch.int32, (count,))
    return batch
