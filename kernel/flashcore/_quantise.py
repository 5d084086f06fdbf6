"""Round 16-bit queries, keys and values to E4M3 for ``attention_e4m3``, d = 128."""

from __future__ import annotations

import ctypes

import torch

from flashcore import _blocks
from flashcore._tensors import DTYPES, check_device, current_stream, get_ordinal

RANK, HEAD_DIM, WORD = 4, 128, 32


class Arguments(ctypes.Structure):
    """Mirror of FlashcoreQuantiseArguments in flashcore/quantise/abi.h."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("transform", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("batch", "rows", "heads", "kv_heads", "batch_stride", "row_stride", "head_stride")),
        *((name, ctypes.c_void_p) for name in ("x", "values", "scale")),
        ("signs", ctypes.c_uint32 * 4),
        ("stream", ctypes.c_void_p),
    ]


def quantise(
    x: torch.Tensor,
    *,
    kv_heads: int | None = None,
    signs: tuple[int, ...] | None = None,
    only_scale: bool = False,
    out: tuple[torch.Tensor | None, torch.Tensor] | None = None,
) -> tuple[torch.Tensor | None, torch.Tensor]:
    """Round ``x`` (batch, rows, heads, 128) to E4M3, and return it with its scales (batch, kv heads).

    A scale is the largest magnitude of its heads / 448. With ``signs``, four words of 32 bits, a Hadamard transform comes first: the same for
    queries and keys, it changes no score. ``only_scale`` returns no values, for ``transpose_values``. ``out`` holds bytes and scales, contiguous.
    """
    check_device(x, x, "x")
    if x.dim() != RANK or x.shape[-1] != HEAD_DIM or (x.numel() and x.stride(-1) != 1) or x.dtype not in DTYPES:
        wanted = "float16 or bfloat16 (batch, rows, heads, 128) with contiguous columns"
        raise ValueError(f"x: must be {wanted}, is {x.dtype} {tuple(x.shape)}")
    batch, rows, heads, _ = x.shape
    kv_heads = heads if kv_heads is None else kv_heads
    values, scale = out or (
        None if only_scale else torch.empty(x.shape, dtype=torch.uint8, device=x.device),
        torch.empty((batch, kv_heads), dtype=torch.float32, device=x.device),
    )
    _check_out(x, values, scale, kv_heads)
    arguments = Arguments(
        size=ctypes.sizeof(Arguments),
        device=get_ordinal(x),
        dtype=DTYPES[x.dtype],
        transform=signs is not None,
        batch=batch,
        rows=rows,
        heads=heads,
        kv_heads=kv_heads,
        batch_stride=x.stride(0),
        row_stride=x.stride(1),
        head_stride=x.stride(2),
        x=x.data_ptr(),
        values=None if values is None else values.data_ptr(),
        scale=scale.data_ptr(),
        signs=(ctypes.c_uint32 * 4)(*(signs or (0, 0, 0, 0))),
        stream=current_stream(get_ordinal(x)),
    )
    _blocks._call("flashcore_quantise", arguments)  # noqa: SLF001 - which names the suite that builds it
    return values, scale


def _check_out(x: torch.Tensor, values: torch.Tensor | None, scale: torch.Tensor, kv_heads: int) -> None:
    """ValueError unless the kernels may write there."""
    results = [("values", values, torch.uint8, tuple(x.shape)), ("scale", scale, torch.float32, (x.shape[0], kv_heads))]
    for name, tensor, dtype, shape in results:
        if tensor is None:
            continue
        check_device(tensor, x, name)
        if tensor.dtype != dtype or tuple(tensor.shape) != shape or not tensor.is_contiguous():
            raise ValueError(f"{name}: must be contiguous {dtype} {shape}, is {tensor.dtype} {tuple(tensor.shape)}")
