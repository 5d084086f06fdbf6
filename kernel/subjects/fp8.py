"""E4M3 tensors of the decode subject, as bytes (uint8), and their scales."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

FP8_NAN = 0x7F
FP8_MAX = 448.0
DEVICE = "cuda"
SCALE_BYTES = 4
OF_KEYS = 3  # dimensions of scales of keys


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


def make_cache_scale(p: Mapping[str, Any], step: int, totals: Any) -> Any:
    """Make scales. Those of tokens or pages are NaN where no key is."""
    import torch

    if not p["scales"]:
        return make_scale(p, step)
    keys = torch.arange(-(-p["sk"] // p["page"]) * p["page"] if p["page"] else p["sk"], device=DEVICE)
    size = p["page"] if p["scales"] == "page" else 1
    index = keys // size
    exponents = torch.arange(p["b"], device=DEVICE)[:, None, None] + index[:, None] + torch.arange(p["hkv"], device=DEVICE) + step
    return torch.exp2(-(exponents % 3).float()).masked_fill_((index * size >= totals[:, None])[:, :, None], math.nan)


def spread(scale: Any, p: Mapping[str, Any]) -> Any:
    """Add a dimension of keys."""
    return scale if p["scales"] else scale[:, None]


def select_pages(scale: Any, p: Mapping[str, Any]) -> Any:
    """Select the scale of each page."""
    return scale[:, :1].contiguous() if p["scales"] == "page" else scale


def count_scale_bytes(p: Mapping[str, Any], totals: Sequence[int]) -> int:
    """Count the scales of one KV head's keys."""
    size = {"": 0, "token": 1, "page": p["page"]}[p["scales"]]
    return SCALE_BYTES * sum(-(-keys // size) for keys in totals) if size else 0


def find_scale(inputs: Mapping[str, Any], name: str, sequence: int) -> Any:
    """Return a sequence's scales, (1 or keys, kv heads)."""
    import torch

    scale = inputs.get(f"{name}_scale")
    if scale is None or scale.dim() != OF_KEYS:
        return None if scale is None else scale[sequence][None]
    new = inputs.get(f"{name}_new")
    count = int(inputs["lengths"][sequence]) + (0 if new is None else new.shape[1])
    page, positions, table = inputs[name].shape[1], torch.arange(count, device=scale.device), inputs["page_table"]
    scale = scale.expand(-1, page, -1)
    if table is None:
        return scale[sequence, positions]
    return scale[table[sequence, positions // page].long(), positions % page]


def quantise(tensor: Any, scale: Any) -> Any:
    """Round to E4M3 bytes. ``scale`` is the tensor's without the head dimension."""
    import torch

    return (tensor.float() / scale[..., None]).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn).view(torch.uint8)


def dequantise(rows: Any, scale: Any, dtype: Any) -> Any:
    """Multiply the rows of one sequence, (rows, heads, d), by its scales, (rows or 1, kv heads)."""
    if not is_fp8(rows):
        return rows
    return to_float(rows).to(dtype) * scale.repeat_interleave(rows.shape[1] // scale.shape[1], dim=1)[:, :, None].to(dtype)
