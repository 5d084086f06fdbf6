"""Merge partial results of attention, as FlashAttention-3's ``flash_attn_combine``."""

from __future__ import annotations

import ctypes

import torch

from flashcore import _library
from flashcore._tensors import (
    Operand,
    check_columns,
    check_device,
    check_distinct,
    check_rank,
    current_stream,
    get_ordinal,
    make_operand,
)

DTYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2}
RANK = 5


class Arguments(ctypes.Structure):
    """Mirror of FlashcoreCombineArguments in flashcore/combine/abi.h."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("max_ctas", ctypes.c_int32),
        ("out_dtype", ctypes.c_int32),
        ("splits", ctypes.c_int64),
        ("batch", ctypes.c_int64),
        ("sequence", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("head_dim", ctypes.c_int64),
        ("partial", Operand),
        ("partial_split_stride", ctypes.c_int64),
        ("lse_partial", Operand),
        ("lse_partial_split_stride", ctypes.c_int64),
        ("out", Operand),
        ("lse", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


def flash_attn_combine(
    out_partial: torch.Tensor,
    lse_partial: torch.Tensor,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge splits: ``out = sum_s exp(lse_s - lse) out_s`` and ``lse = ln sum_s exp(lse_s)``.

    ``out_partial`` (splits, batch, sequence, heads, d) and ``lse_partial`` (splits, batch, sequence, heads) are float32, with at most 256
    splits. The output is float32, float16 or bfloat16: of ``out``, or of ``out_dtype``, or float32. The log-sum-exp has the shape
    (batch, sequence, heads), over memory of (batch, heads, sequence). A split whose log-sum-exp is -inf is not read. Without any other
    the row is 0, and its log-sum-exp -inf.
    """
    return combine(out_partial, lse_partial, out, out_dtype)


def combine(
    out_partial: torch.Tensor,
    lse_partial: torch.Tensor,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    *,
    lse: torch.Tensor | None = None,
    max_ctas: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge splits, also into a contiguous ``lse`` (batch, heads, sequence). ``max_ctas`` limits the blocks (0: no limit)."""
    out, lse = _check(out_partial, lse_partial, out, out_dtype, lse)
    splits, batch, sequence, heads, head_dim = out_partial.shape
    arguments = Arguments(
        size=ctypes.sizeof(Arguments),
        device=get_ordinal(out_partial),
        max_ctas=max_ctas,
        out_dtype=DTYPES[out.dtype],
        splits=splits,
        batch=batch,
        sequence=sequence,
        heads=heads,
        head_dim=head_dim,
        partial=make_operand(out_partial.stride(), 1, 2, 3),
        partial_split_stride=out_partial.stride(0),
        lse_partial=make_operand(lse_partial.stride(), 1, 2, 3),
        lse_partial_split_stride=lse_partial.stride(0),
        out=make_operand(out.stride()),
        lse=lse.data_ptr(),
        stream=current_stream(get_ordinal(out_partial)),
    )
    arguments.partial.data, arguments.lse_partial.data = out_partial.data_ptr(), lse_partial.data_ptr()
    arguments.out.data = out.data_ptr()
    _library.call("combine", "flashcore_combine", ctypes.addressof(arguments))
    return out, lse.transpose(1, 2)


def make_results(
    out_partial: torch.Tensor, out: torch.Tensor | None = None, out_dtype: torch.dtype | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``out`` or a new output, and a new log-sum-exp (batch, heads, sequence)."""
    _, batch, sequence, heads, head_dim = out_partial.shape
    if out is None:
        dtype = torch.float32 if out_dtype is None else out_dtype
        out = torch.empty((batch, sequence, heads, head_dim), dtype=dtype, device=out_partial.device)
    return out, torch.empty((batch, heads, sequence), dtype=torch.float32, device=out_partial.device)


def _check(
    out_partial: torch.Tensor,
    lse_partial: torch.Tensor,
    out: torch.Tensor | None,
    out_dtype: torch.dtype | None,
    lse: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tensors of the results. ValueError names the argument that the kernel cannot take."""
    for name, tensor in (("out_partial", out_partial), ("lse_partial", lse_partial)):
        check_device(tensor, out_partial, name, of="out_partial")
        if tensor.dtype != torch.float32:
            raise ValueError(f"{name}: must be float32, is {tensor.dtype}")
        if torch.is_grad_enabled() and tensor.requires_grad:
            raise ValueError(f"{name}: requires a gradient, and this kernel is forward only. Use torch.no_grad()")
    check_rank(out_partial, RANK, "out_partial", "(splits, batch, sequence, heads, d)")
    check_columns(out_partial, "out_partial")
    _check_shape(lse_partial, tuple(out_partial.shape[:-1]), "lse_partial")
    if out_dtype is not None and out_dtype not in DTYPES:
        raise ValueError(f"out_dtype: must be float32, float16 or bfloat16, is {out_dtype}")
    made, new_lse = make_results(out_partial, out, out_dtype)
    if out is not None:
        check_device(out, out_partial, "out", of="out_partial")
        _check_shape(out, tuple(out_partial.shape[1:]), "out")
        check_columns(out, "out")
        check_distinct(out, "out")
        if out.dtype not in DTYPES or out_dtype not in {None, out.dtype}:
            raise ValueError(f"out: must be {out_dtype or 'float32, float16 or bfloat16'}, is {out.dtype}")
    return made, new_lse if lse is None else lse


def _check_shape(tensor: torch.Tensor, shape: tuple[int, ...], name: str) -> None:
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name}: must have shape {shape}, is {tuple(tensor.shape)}")
