"""Stream ``out = a * x + y`` in float32 on torch tensors."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from flashcore import _library

if TYPE_CHECKING:
    import torch


class Arguments(ctypes.Structure):
    """Mirror of FlashcoreStreamArguments in flashcore/stream/abi.h."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("device", ctypes.c_int32),
        ("max_ctas", ctypes.c_int32),
        ("a", ctypes.c_float),
        ("count", ctypes.c_int64),
        ("x", ctypes.c_void_p),
        ("y", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


def stream_axpy(
    a: float, x: torch.Tensor, y: torch.Tensor, *, out: torch.Tensor | None = None, max_ctas: int = 0
) -> torch.Tensor:
    """Compute a * x + y on the current stream of ``x``'s device.

    ``x``, ``y`` and ``out`` are contiguous float32 with equally many elements. ``max_ctas`` limits the blocks (0: no limit).
    """
    import torch

    out = torch.empty_like(x) if out is None else out
    for name, tensor in (("x", x), ("y", y), ("out", out)):
        if tensor.device.type != "cuda" or tensor.device != x.device:
            raise ValueError(f"{name}: must be on the CUDA device of x, is on {tensor.device}")
        if tensor.dtype != torch.float32 or not tensor.is_contiguous():
            raise ValueError(f"{name}: must be contiguous float32, is {tensor.dtype} with strides {tensor.stride()}")
        if tensor.numel() != x.numel():
            raise ValueError(f"{name}: must have {x.numel()} elements like x, has {tensor.numel()}")
    arguments = Arguments(
        size=ctypes.sizeof(Arguments),
        device=x.device.index,
        max_ctas=max_ctas,
        a=a,
        count=x.numel(),
        x=x.data_ptr(),
        y=y.data_ptr(),
        out=out.data_ptr(),
        stream=torch.cuda.current_stream(x.device).cuda_stream,
    )
    _library.call("stream", "flashcore_stream_axpy", ctypes.byref(arguments))
    return out
