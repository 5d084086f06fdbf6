"""Attention forward in E4M3 on packed sequences."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from flashcore import _library
from flashcore._blocks import HEAD_DIMS
from flashcore._e4m3 import attend_filled, needs_filling
from flashcore._fp8 import BYTE, FP8_STORAGE, check_scale
from flashcore._launch import Entry, Launch, Tensors, make_launch
from flashcore._tensors import (
    Operand,
    Result,
    check_device,
    check_distinct,
    check_exactly,
    check_lengths,
    check_rank,
    check_rows,
    get_ordinal,
    get_scale,
    get_strides,
    make_operand,
    to_int,
)

RANK = 3
ROWS, HEADS = 0, 1  # dimensions
BLOCK_RANK = 3  # of scales of blocks
DIMENSIONS = "(rows, heads, head dimension)"
_SCALES = tuple(f"{name}_scale_{kind}_stride" for name in "qkv" for kind in ("batch", "head"))


class Arguments(ctypes.Structure):
    """Mirror of FlashcoreE4m3VarlenArguments."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("causal", ctypes.c_int32),
        ("max_ctas", ctypes.c_int32),
        ("scale", ctypes.c_float),
        ("reserved", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("batch", "heads", "kv_heads", "total_q", "total_k", "head_dim")),
        *((name, Operand) for name in ("q", "k", "v", "out")),
        *((name, ctypes.c_void_p) for name in ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k")),
        *((name, ctypes.c_void_p) for name in ("q_scale", "k_scale", "v_scale", "lse", "workspace")),
        ("workspace_bytes", ctypes.c_int64),
        ("stream", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in _SCALES),
    ]


def attention_e4m3_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    q_scale: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    seqused_q: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None,
    return_lse: bool = False,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    max_ctas: int = 0,
) -> Result:
    """Compute ``attention_varlen`` of E4M3 as ``attention_e4m3`` does. Sequences must not overlap. Factors are (sequences, kv heads)."""
    q, k, v = (tensor.view(BYTE) if getattr(tensor, "dtype", None) in FP8_STORAGE else tensor for tensor in (q, k, v))
    if needs_filling((q, k, v), RANK):
        return attend_filled(
            attention_e4m3_varlen, (q, k, v), (out, lse), scale, cu_seqlens_q, cu_seqlens_k, causal=causal, return_lse=return_lse,
            max_ctas=max_ctas, q_scale=q_scale, k_scale=k_scale, v_scale=v_scale, seqused_q=seqused_q, seqused_k=seqused_k,
        )  # fmt: skip
    if out is None and isinstance(q, torch.Tensor):
        out = torch.empty(q.shape, dtype=torch.bfloat16, device=q.device)
    tensors = (q, k, v, out, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, q_scale, k_scale, v_scale, lse)
    result: Result = _ENTRY(tensors, (causal, scale, max_ctas), return_lse=return_lse)
    return result


def _prepare(tensors: Tensors, options: tuple[Any, ...]) -> Launch:
    q, k, v, out, cu_q, cu_k, used_q, used_k, *scales, lse = tensors
    causal, scale, max_ctas = options
    _check_tensors(q, k, v, out)
    if cu_k is None:
        raise ValueError("cu_seqlens_k: is missing")
    batch = check_lengths(q, cu_q, {"cu_seqlens_k": (cu_k, 1), "seqused_q": (used_q, 0), "seqused_k": (used_k, 0)})
    (rows, heads, head_dim), kv_heads = q.shape, k.shape[HEADS]
    if lse is not None:
        check_exactly(lse, q, "lse", torch.float32, (heads, rows))
    arguments = Arguments(
        size=ctypes.sizeof(Arguments),
        device=get_ordinal(q),
        causal=bool(causal),
        max_ctas=to_int(max_ctas, "max_ctas"),
        scale=get_scale(scale, head_dim),
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        total_q=rows,
        total_k=k.shape[ROWS],
        head_dim=head_dim,
        q=make_operand(q.stride(), ROWS, ROWS, HEADS),
        k=make_operand(k.stride(), ROWS, ROWS, HEADS),
        v=make_operand(v.stride(), ROWS, ROWS, HEADS),
        out=make_operand(get_strides(out, q.shape), ROWS, ROWS, HEADS),
    )
    for name, factor in zip("qkv", scales, strict=True):
        if factor is None:
            continue
        if factor.dim() == BLOCK_RANK:
            raise NotImplementedError(f"{name}_scale: packed rows take no scales of blocks. Pass one of each (sequence, kv head)")
        check_scale(factor, q, f"{name}_scale", (batch, kv_heads))
        for kind, stride in zip(("batch", "head"), factor.stride(), strict=True):
            setattr(arguments, f"{name}_scale_{kind}_stride", stride)
    size = _library.get_library("e4m3").flashcore_e4m3_varlen_workspace_bytes(ctypes.byref(arguments))
    arguments.workspace_bytes = size
    return make_launch(arguments, q, (heads, rows), workspace_bytes=size, like_query=False)


def _check_tensors(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor) -> None:
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dtype is not BYTE:
            raise ValueError(f"{name}: must be E4M3 (float8_e4m3fn or uint8), is {tensor.dtype}")
        check_device(tensor, q, name)
        check_rank(tensor, RANK, name, DIMENSIONS)
    if q.shape[-1] not in HEAD_DIMS:
        raise ValueError(
            f"q: the head dimension must be {', '.join(map(str, HEAD_DIMS))} in packed rows of E4M3, is {q.shape[-1]}"
        )
    check_rows(q, q, "q", tuple(q.shape))
    check_rows(k, q, "k", (*k.shape[:2], q.shape[-1]))
    check_rows(v, q, "v", tuple(k.shape))
    if out.dtype != torch.bfloat16:
        raise ValueError(f"out: must be bfloat16, is {out.dtype}")
    check_rows(out, q, "out", tuple(q.shape))
    check_distinct(out, "out")


_ENTRY = Entry(
    "e4m3", "flashcore_e4m3_varlen", Arguments, prepare=_prepare,
    operands=("q", "k", "v", "out"),
    pointers=("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "q_scale", "k_scale", "v_scale"),
)  # fmt: skip
