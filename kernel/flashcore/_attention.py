"""Forward attention on torch tensors.

``layout`` names the order of the dimensions in memory terms of shape: ``"bshd"`` means (batch, sequence, heads, head
dimension), the default, and ``"bhsd"`` means (batch, heads, sequence, head dimension). Any strides are taken as they are
(a view is never copied) as long as the head dimension is contiguous and every other stride is a multiple of 16 bytes.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import torch

from flashcore._launch import Entry, Launch, Tensors, words
from flashcore._tensors import DTYPES, Operand, check_exactly, check_like_query, number, operand, ordinal, strides, whole

# layout -> positions of (batch, sequence, heads) in the shape
LAYOUTS = {"bshd": (0, 1, 2), "bhsd": (0, 2, 1)}
RANK = 4
TICKETS_BYTES = 8


Result = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


class Arguments(ctypes.Structure):
    """Mirror of FlashcoreAttentionArguments in flashcore/attention/abi.h."""

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
        ("sq", ctypes.c_int64),
        ("sk", ctypes.c_int64),
        ("head_dim", ctypes.c_int64),
        ("q", Operand),
        ("k", Operand),
        ("v", Operand),
        ("out", Operand),
        ("lse", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
    ]


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    layout: str = "bshd",
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    max_ctas: int = 0,
) -> Result:
    """softmax(scale * q @ k^T) @ v, launched on the current stream of ``q``'s device.

    ``causal`` is aligned bottom right: with more keys than queries the last query still sees every key. ``scale`` defaults
    to 1/sqrt(head dimension) and may be any finite number. A row that may see no key gives 0, with a log-sum-exp of -inf.
    ``return_lse`` adds the natural log-sum-exp, float32 of shape (batch, heads, queries). ``out`` and ``lse`` take the
    results when given. ``max_ctas`` caps the number of persistent blocks (0: one for each multiprocessor).
    """
    result: Result = _ENTRY((q, k, v, out, lse), (layout, causal, scale, max_ctas), return_lse=return_lse)
    return result


def _prepare(tensors: Tensors, options: tuple[Any, ...]) -> Launch:
    """Check what the C side cannot see, and lay the arguments out. ValueError that names the argument."""
    q, k, v, out, lse = tensors
    layout, causal, scale, max_ctas = options
    batch, sq, heads, head_dim = _shape(q, "q", layout)
    _, sk, kv_heads, _ = _shape(k, "k", layout)
    like_query, like_keys = (batch, sq, heads, head_dim), (batch, sk, kv_heads, head_dim)
    for name, tensor, shape in (("q", q, like_query), ("k", k, like_keys), ("v", v, like_keys), ("out", out, like_query)):
        if tensor is not None:
            _check(tensor, q, name, shape, layout)
    if lse is not None:
        check_exactly(lse, q, "lse", torch.float32, (batch, heads, sq))
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
        sq=sq,
        sk=sk,
        head_dim=head_dim,
        q=operand(q.stride(), *LAYOUTS[layout]),
        k=operand(k.stride(), *LAYOUTS[layout]),
        v=operand(v.stride(), *LAYOUTS[layout]),
        out=operand(strides(out, q.shape), *LAYOUTS[layout]),
    )
    return Launch(
        words=words(arguments),
        device=ordinal(q),
        workspace_bytes=TICKETS_BYTES,
        like_query=q.is_contiguous(),
        out=tuple(q.shape),
        lse=(batch, heads, sq),
    )


_ENTRY = Entry(
    "attention", "flashcore_attention_forward", Arguments, prepare=_prepare, operands=("q", "k", "v", "out"), pointers=()
)


def _shape(tensor: torch.Tensor, name: str, layout: str) -> tuple[int, int, int, int]:
    """(batch, sequence, heads, head dimension) of a tensor in either layout."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout: must be one of {', '.join(LAYOUTS)}, is {layout!r}")
    if tensor.dim() != RANK:
        raise ValueError(f"{name}: must have {RANK} dimensions ({layout}), has {tensor.dim()}")
    batch, sequence, heads = (tensor.shape[position] for position in LAYOUTS[layout])
    return batch, sequence, heads, tensor.shape[3]


def _check(tensor: torch.Tensor, query: torch.Tensor, name: str, shape: tuple[int, int, int, int], layout: str) -> None:
    """What the C side cannot see: device, dtype and whether the shapes belong together."""
    check_like_query(tensor, query, name)
    if _shape(tensor, name, layout) != shape:
        raise ValueError(f"{name}: (batch, sequence, heads, head_dim) must be {shape}, is {_shape(tensor, name, layout)}")
