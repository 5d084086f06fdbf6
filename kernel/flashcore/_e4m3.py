"""Attention forward in E4M3 on torch tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from flashcore import _library
from flashcore._blocks import HEAD_DIMS, ROWS, is_columns, permute_columns
from flashcore._fp8 import BYTE, FP8_STORAGE, check_scale
from flashcore._launch import Entry, Launch, Tensors, make_launch
from flashcore._tensors import (
    DTYPES,
    Operand,
    Result,
    check_device,
    check_distinct,
    check_exactly,
    check_rank,
    check_rows,
    current_stream,
    get_ordinal,
    get_scale,
    get_strides,
    make_operand,
    to_int,
)

RANK, BLOCK = 4, 128
COUNTER_BYTES = 128  # at the beginning of the workspace
CODES = {**DTYPES, BYTE: 2}
_SCALES = tuple(f"{name}_scale_{kind}_stride" for name in "qkv" for kind in ("batch", "head"))


class Arguments(ctypes.Structure):
    """Mirror of FlashcoreE4m3Arguments in flashcore/attention/e4m3_abi.h."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("causal", ctypes.c_int32),
        ("max_ctas", ctypes.c_int32),
        ("scale", ctypes.c_float),
        ("transposed", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("batch", "heads", "kv_heads", "sq", "sk", "head_dim")),
        *((name, Operand) for name in ("q", "k", "v", "out")),
        *((name, ctypes.c_void_p) for name in ("q_scale", "k_scale", "v_scale", "lse", "workspace")),
        ("workspace_bytes", ctypes.c_int64),
        ("stream", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in _SCALES),
        *((f"{name}_scale_block_stride", ctypes.c_int64) for name in "qkv"),
        ("block_scales", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class TransposeArguments(ctypes.Structure):
    """Mirror of FlashcoreE4m3TransposeArguments."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("batch", "kv_heads", "sk", "head_dim")),
        ("v", Operand),
        ("v_scale", ctypes.c_void_p),
        ("v_scale_batch_stride", ctypes.c_int64),
        ("v_scale_head_stride", ctypes.c_int64),
        ("values", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


def attention_e4m3(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    q_scale: torch.Tensor | None = None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    transposed: bool = False,
    return_lse: bool = False,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    max_ctas: int = 0,
) -> Result:
    """Compute ``attention`` of E4M3 tensors (float8_e4m3fn, or the same bytes as uint8), d = 64, 128 or 256. The output is bfloat16.

    ``q_scale``, ``k_scale`` and ``v_scale`` are factors of the tensors, float32 (batch, kv heads) with any strides. None: 1. They may have one for
    each block: (batch, heads, blocks of 64 queries) and (batch, kv heads, blocks of 128 keys). With ``transposed`` the values are the result of
    ``transpose_values``. Values in columns, whose keys are neighbours, are not transposed again. Other head dimensions below 256 are filled with
    zeros, in copies. The rest is as in ``attention``.
    """
    q, k, v = (tensor.view(BYTE) if getattr(tensor, "dtype", None) in FP8_STORAGE else tensor for tensor in (q, k, v))
    if not transposed and needs_filling((q, k, v), RANK):
        return attend_filled(
            attention_e4m3, (q, k, v), (out, lse), scale, causal=causal, return_lse=return_lse, max_ctas=max_ctas, q_scale=q_scale, k_scale=k_scale,
            v_scale=v_scale,
        )  # fmt: skip
    if out is None and isinstance(q, torch.Tensor):
        out = torch.empty(q.shape, dtype=torch.bfloat16, device=q.device)
    if not transposed and isinstance(v, torch.Tensor) and v.dtype is BYTE and is_columns(v):
        v, transposed = _permute(v), True
    tensors = (q, k, v, out, q_scale, k_scale, v_scale, lse)
    result: Result = _ENTRY(tensors, (causal, scale, transposed, max_ctas), return_lse=return_lse)
    return result


def transpose_values(v: torch.Tensor, v_scale: torch.Tensor | None = None) -> torch.Tensor:
    """Return values for ``attention_e4m3(transposed=True)``: E4M3 (batch, kv heads, d, keys rounded up to 128), permuted.

    Float16 and bfloat16 are divided by ``v_scale``, clamped to 448 and rounded to the nearest. E4M3 keeps its bits.
    """
    if v.dtype in FP8_STORAGE:
        v = v.view(BYTE)
    if v.dtype not in CODES:
        raise ValueError(f"v: must be float16, bfloat16 or E4M3, is {v.dtype}")
    if v.dtype is BYTE and is_columns(v):
        return _permute(v).view(torch.float8_e4m3fn)
    check_rank(v, RANK, "v")
    check_rows(v, v, "v", v.shape)
    batch, keys, kv_heads, head_dim = v.shape
    if v_scale is not None:
        check_scale(v_scale, v, "v_scale", (batch, kv_heads))
    values = torch.empty((batch, kv_heads, head_dim, _round_up(keys)), dtype=BYTE, device=v.device)
    arguments = TransposeArguments(
        size=ctypes.sizeof(TransposeArguments),
        device=get_ordinal(v),
        dtype=CODES[v.dtype],
        batch=batch,
        kv_heads=kv_heads,
        sk=keys,
        head_dim=head_dim,
        v=make_operand(v.stride()),
        values=values.data_ptr(),
        stream=current_stream(get_ordinal(v)),
    )
    arguments.v.data = v.data_ptr()
    if v_scale is not None:
        arguments.v_scale = v_scale.data_ptr()
        arguments.v_scale_batch_stride, arguments.v_scale_head_stride = v_scale.stride()
    library = _library.get_library("e4m3")
    status = library.flashcore_e4m3_transpose(ctypes.addressof(arguments))
    if status != _library.OK:
        _library.refuse(library, status)
    return values.view(torch.float8_e4m3fn)


def needs_filling(tensors: Tensors, rank: int) -> bool:
    """Return whether all have the same head dimension below 256, and no kernel has it. What is wrong otherwise, the kernel names."""
    if any(not isinstance(x, torch.Tensor) or x.dtype is not BYTE or x.dim() != rank for x in tensors):
        return False
    (head_dim, *others) = {x.shape[-1] for x in tensors}
    return not others and 0 < head_dim < max(HEAD_DIMS) and head_dim not in HEAD_DIMS


def attend_filled(
    attend: Callable[..., Result], tensors: Tensors, results: Tensors, scale: float | None, *rest: Any, **options: Any
) -> Result:
    """Call ``attend`` with copies of q, k and v that zeros fill up to the next head dimension of a kernel. ``results``: out, lse."""
    head_dim = tensors[0].shape[-1]
    missing = min(size for size in HEAD_DIMS if size > head_dim) - head_dim
    filled = (torch.nn.functional.pad(x, (0, missing)).contiguous() for x in tensors)
    result = attend(*filled, *rest, scale=get_scale(scale, head_dim), lse=results[1], **options)
    out, *sums = result if isinstance(result, tuple) else (result,)
    out = out[..., :head_dim].contiguous() if results[0] is None else results[0].copy_(out[..., :head_dim])
    return (out, sums[0]) if sums else out


def _permute(v: torch.Tensor) -> torch.Tensor:
    check_device(v, v, "v")
    return permute_columns(v)


def _prepare(tensors: Tensors, options: tuple[Any, ...]) -> Launch:
    q, k, v, out, *scales, lse = tensors
    causal, scale, transposed, max_ctas = options
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dtype is not BYTE:
            raise ValueError(f"{name}: must be E4M3 (float8_e4m3fn or uint8), is {tensor.dtype}")
        check_device(tensor, q, name)
    check_rank(q, RANK, "q")
    check_rows(q, q, "q", q.shape)
    check_rows(k, q, "k", (q.shape[0], *k.shape[1:3], q.shape[3]))
    (batch, sq, heads, head_dim), (_, sk, kv_heads, _) = q.shape, k.shape
    values = (batch, kv_heads, head_dim, _round_up(sk)) if transposed else tuple(k.shape)
    check_rows(v, q, "v", values)
    if transposed and not v.is_contiguous():
        raise ValueError("v: transposed values must be contiguous, as transpose_values returns them")
    if out.dtype != torch.bfloat16:
        raise ValueError(f"out: must be bfloat16, is {out.dtype}")
    check_rows(out, q, "out", tuple(q.shape))
    check_distinct(out, "out")
    if lse is not None:
        check_exactly(lse, q, "lse", torch.float32, (batch, heads, sq))
    arguments = Arguments(
        size=ctypes.sizeof(Arguments),
        device=get_ordinal(q),
        causal=bool(causal),
        max_ctas=to_int(max_ctas, "max_ctas"),
        scale=get_scale(scale, head_dim),
        transposed=bool(transposed),
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        sq=sq,
        sk=sk,
        head_dim=head_dim,
        q=make_operand(q.stride()),
        k=make_operand(k.stride()),
        v=make_operand(v.stride()),
        out=make_operand(get_strides(out, q.shape)),
        workspace_bytes=COUNTER_BYTES + (0 if transposed else batch * kv_heads * head_dim * _round_up(sk)),
    )
    for name, factor in zip("qkv", scales, strict=True):
        if factor is None:
            continue
        shape: tuple[int, ...] = (batch, kv_heads)
        if factor.dim() > len(shape):
            shape = (batch, heads if name == "q" else kv_heads, -(-(sq if name == "q" else sk) // ROWS[name]))
            arguments.block_scales |= 1 << "qkv".index(name)
        check_scale(factor, q, f"{name}_scale", shape)
        for kind, stride in zip(("batch", "head", "block"), factor.stride(), strict=False):
            setattr(arguments, f"{name}_scale_{kind}_stride", stride)
    return make_launch(arguments, q, (batch, heads, sq), workspace_bytes=arguments.workspace_bytes, like_query=False)


_ENTRY = Entry(
    "e4m3", "flashcore_e4m3_forward", Arguments, prepare=_prepare,
    operands=("q", "k", "v", "out"), pointers=("q_scale", "k_scale", "v_scale"),
)  # fmt: skip


def _round_up(keys: int) -> int:
    return -(-keys // BLOCK) * BLOCK
