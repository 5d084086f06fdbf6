"""E4M3 tensors of the decode subject, as bytes (uint8), and their scales."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

FP8_NAN = 0x7F
FP8_MAX = 448.0
DEVICE = "cuda"


def is_fp8(tensor: Any) -> bool:
    """Tell whether it holds E4M3 as bytes."""
    import torch

    return bool(tensor.dtype == torch.uint8)


def get_nan(tensor: Any) -> float:
    """Return what fills memory that no kernel may use."""
    return FP8_NAN if is_fp8(tensor) else math.nan


def to_float(tensor: Any) -> Any:
    """Read E4M3 as float32. Other tensors stay as they are."""
    import torch

    return tensor.view(torch.float8_e4m3fn).float() if is_fp8(tensor) else tensor


def make_scale(p: Mapping[str, Any], step: int) -> Any:
    """Make scales of 1, 1/2 and 1/4, (batch, kv heads). The first one is that of ``step``, so that each tensor has another."""
    import torch

    exponents = (torch.arange(p["b"] * p["hkv"], device=DEVICE) + step) % 3
    return torch.exp2(-exponents.float()).view(p["b"], p["hkv"])


def quantise(tensor: Any, scale: Any) -> Any:
    """Round to E4M3 bytes. ``scale`` is the tensor's without the head dimension."""
    import torch

    return (tensor.float() / scale[..., None]).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn).view(torch.uint8)


def dequantise(rows: Any, scale: Any, sequence: int, dtype: Any) -> Any:
    """Multiply the rows of one sequence, (rows, heads, d), by their scales, (batch, kv heads)."""
    if not is_fp8(rows):
        return rows
    factors = scale[sequence].repeat_interleave(rows.shape[1] // scale.shape[1])[None, :, None]
    return to_float(rows).to(dtype) * factors.to(dtype)
