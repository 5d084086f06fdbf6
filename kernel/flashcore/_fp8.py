"""E4M3 tensors of a decode call. They are passed as bytes, because DLPack cannot describe them everywhere."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from flashcore._launch import Tensors
from flashcore._tensors import DTYPES, check_device

BYTE = torch.uint8
FP8_STORAGE = (torch.float8_e4m3fn, BYTE)
CODES = {**DTYPES, BYTE: 2}
OUT, SCALES = 5, slice(8, 11)
"""Positions in the tensors of a call."""
OF_KEYS = 3
"""Dimensions of scales of single keys."""
HEAD_DIM_STEP, FP8_HEAD_DIM_STEP, MAX_HEAD_DIM = 8, 16, 256
"""Rows of a cache are loaded in units of 16 bytes."""


def as_bytes(tensors: Tensors) -> Tensors:
    """View E4M3 tensors as bytes, which DLPack can describe. Allocate the output of an E4M3 query, which is bfloat16."""
    viewed = list(tensors)
    for i in range(OUT):
        if getattr(viewed[i], "dtype", None) is torch.float8_e4m3fn:
            viewed[i] = viewed[i].view(BYTE)
    if viewed[0].dtype is BYTE and viewed[OUT] is None:
        viewed[OUT] = torch.empty(viewed[0].shape, dtype=torch.bfloat16, device=viewed[0].device)
    return tuple(viewed)


def check_type(tensors: Tensors, name: str, tensor: torch.Tensor) -> None:
    """ValueError unless the types of queries, caches, new rows and output fit together."""
    q, k = tensors[0], tensors[1]
    if k.dtype is not BYTE:
        allowed: tuple[torch.dtype, ...] = (q.dtype,) if q.dtype in DTYPES else tuple(DTYPES)
    elif name in {"q", "k_new", "v_new"}:
        allowed = (*DTYPES, BYTE)
    else:
        allowed = (BYTE,) if name in {"k", "v"} else (q.dtype if q.dtype in DTYPES else torch.bfloat16,)
    if tensor.dtype in allowed and (name != "v_new" or tensor.dtype == tensors[3].dtype):
        return
    if k.dtype is not BYTE:
        raise ValueError(f"{name}: must be float16 or bfloat16 like q, is {tensor.dtype}")
    names = " or ".join("E4M3" if dtype is BYTE else str(dtype) for dtype in allowed)
    raise ValueError(f"{name}: must be {names} over caches of E4M3, is {tensor.dtype}")


def check_scales(tensors: Tensors, shape: tuple[int, int], *, is_paged: bool) -> None:
    """ValueError unless each scale is float32 of its shape, and of an E4M3 tensor."""
    q, k = tensors[0], tensors[1]
    for name, scale in zip(("q_scale", "k_scale", "v_scale"), tensors[SCALES], strict=True):
        if scale is None:
            continue
        if (q if name == "q_scale" else k).dtype is not BYTE:
            raise ValueError(f"{name}: is for E4M3, and {name[0]} is {q.dtype if name == 'q_scale' else k.dtype}. Pass None")
        if name == "q_scale" or scale.dim() != OF_KEYS:
            check_scale(scale, q, name, shape)
        elif is_paged and scale.shape[1] == 1:
            check_scale(scale, q, name, (k.shape[0], 1, k.shape[2]))
        else:
            check_scale(scale, q, name, tuple(k.shape[:OF_KEYS]))


def set_scales(arguments: ctypes.Structure, scales: Sequence[torch.Tensor | None]) -> None:
    """Fill the strides of scales in."""
    for name, scale in zip("qkv", scales, strict=True):
        batch, *key, head = (0, 0) if scale is None else scale.stride()
        setattr(arguments, f"{name}_scale_batch_stride", batch)
        setattr(arguments, f"{name}_scale_head_stride", head)
        if scale is not None and key:
            setattr(arguments, f"{name}_scale_per_key", 1)
            setattr(arguments, f"{name}_scale_key_stride", 0 if scale.shape[1] == 1 else key[0])


def check_scale(scale: torch.Tensor, query: torch.Tensor, name: str, shape: tuple[int, ...]) -> None:
    """ValueError unless it is float32 of this shape on the query's device."""
    check_device(scale, query, name)
    if scale.dtype != torch.float32 or tuple(scale.shape) != shape:
        raise ValueError(f"{name}: must be float32 of shape {shape}, is {scale.dtype} of shape {tuple(scale.shape)}")


def is_head_dim(head_dim: int, cache: torch.Tensor) -> bool:
    """Return whether decode takes it over such a cache."""
    return 0 < head_dim <= MAX_HEAD_DIM and head_dim % _get_step(cache) == 0


def describe_head_dims(cache: torch.Tensor) -> str:
    """Describe what ``is_head_dim`` takes."""
    return f"a multiple of {_get_step(cache)} up to {MAX_HEAD_DIM}"


def _get_step(cache: torch.Tensor) -> int:
    return FP8_HEAD_DIM_STEP if cache.dtype in FP8_STORAGE else HEAD_DIM_STEP
