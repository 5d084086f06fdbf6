"""Forward attention on torch tensors.

``layout`` names the order of the dimensions in memory terms of shape: ``"bshd"`` means (batch, sequence, heads, head
dimension), the default, and ``"bhsd"`` means (batch, heads, sequence, head dimension). Any strides are taken as they are
(a view is never copied) as long as the head dimension is contiguous and every other stride is a multiple of 16 bytes.
"""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING

from flashcore import _library

if TYPE_CHECKING:
    import torch

# layout -> positions of (batch, sequence, heads) in the shape
LAYOUTS = {"bshd": (0, 1, 2), "bhsd": (0, 2, 1)}
DTYPES = {"torch.float16": 0, "torch.bfloat16": 1}
RANK = 4


class Operand(ctypes.Structure):
    """Mirror of FlashcoreOperand in flashcore/attention/abi.h; strides count elements."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("batch_stride", ctypes.c_int64),
        ("sequence_stride", ctypes.c_int64),
        ("head_stride", ctypes.c_int64),
    ]


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
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale * q @ k^T) @ v, launched on the current stream of ``q``'s device.

    ``causal`` is aligned bottom right: with more keys than queries the last query still sees every key. ``scale`` defaults
    to 1/sqrt(head dimension) and may be any finite number. A row that may see no key gives 0, with a log-sum-exp of -inf.
    ``return_lse`` adds the natural log-sum-exp, float32 of shape (batch, heads, queries). ``out`` and ``lse`` take the
    results when given. ``max_ctas`` caps the number of persistent blocks (0: one for each multiprocessor).
    """
    import torch

    batch, sq, heads, head_dim = _shape(q, "q", layout)
    _, sk, kv_heads, _ = _shape(k, "k", layout)
    _check(q, q, "q", (batch, sq, heads, head_dim), layout)
    _check(k, q, "k", (batch, sk, kv_heads, head_dim), layout)
    _check(v, q, "v", (batch, sk, kv_heads, head_dim), layout)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise ValueError("q, k, v: this is a forward kernel without a gradient; call it under torch.no_grad()")
    if out is None:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    _check(out, q, "out", (batch, sq, heads, head_dim), layout)
    if lse is None and return_lse:
        lse = torch.empty((batch, heads, sq), dtype=torch.float32, device=q.device)
    if lse is not None:
        _check_lse(lse, q, (batch, heads, sq))

    stream = torch.cuda.current_stream(q.device).cuda_stream
    arguments = Arguments(
        size=ctypes.sizeof(Arguments),
        device=q.device.index,
        dtype=DTYPES[str(q.dtype)],
        causal=bool(causal),
        max_ctas=max_ctas,
        scale=1.0 / math.sqrt(head_dim) if scale is None else scale,
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        sq=sq,
        sk=sk,
        head_dim=head_dim,
        q=_operand(q, layout),
        k=_operand(k, layout),
        v=_operand(v, layout),
        out=_operand(out, layout),
        lse=None if lse is None else lse.data_ptr(),
        workspace=_workspace(q.device, stream).data_ptr(),
        stream=stream,
    )
    _library.call("attention", "flashcore_attention_forward", arguments)
    return (out, lse) if return_lse and lse is not None else out


_workspaces: dict[tuple[int, int], torch.Tensor] = {}


def _workspace(device: torch.device, stream: int) -> torch.Tensor:
    """Two zeroed counters, which every launch leaves zeroed: one pair for each stream, whose launches follow each other.

    A graph may be replayed beside the stream that it was captured on, so it gets a pair of its own, zeroed in the graph.
    """
    import torch

    if torch.cuda.is_current_stream_capturing():
        return torch.zeros(2, dtype=torch.int32, device=device)
    key = (device.index, stream)
    if key not in _workspaces:
        _workspaces[key] = torch.zeros(2, dtype=torch.int32, device=device)
    return _workspaces[key]


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
    if tensor.device.type != "cuda" or tensor.device != query.device:
        raise ValueError(f"{name}: must be on the CUDA device of q, is on {tensor.device}")
    if str(tensor.dtype) not in DTYPES or tensor.dtype != query.dtype:
        raise ValueError(f"{name}: must be float16 or bfloat16 like q, is {tensor.dtype}")
    if _shape(tensor, name, layout) != shape:
        raise ValueError(f"{name}: (batch, sequence, heads, head_dim) must be {shape}, is {_shape(tensor, name, layout)}")
    if tensor.numel() and tensor.stride(3) != 1:
        raise ValueError(f"{name}: the head dimension must be contiguous, its stride is {tensor.stride(3)}")


def _check_lse(lse: torch.Tensor, query: torch.Tensor, shape: tuple[int, int, int]) -> None:
    import torch

    if lse.device != query.device or lse.dtype != torch.float32 or not lse.is_contiguous():
        raise ValueError("lse: must be contiguous float32 on the device of q")
    if tuple(lse.shape) != shape:
        raise ValueError(f"lse: must have shape (batch, heads, queries) = {shape}, is {tuple(lse.shape)}")


def _operand(tensor: torch.Tensor, layout: str) -> Operand:
    batch, sequence, heads = (tensor.stride(position) for position in LAYOUTS[layout])
    return Operand(data=tensor.data_ptr(), batch_stride=batch, sequence_stride=sequence, head_stride=heads)
