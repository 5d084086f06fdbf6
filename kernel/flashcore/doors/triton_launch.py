"""Launch the Triton kernel on tensors. What it does not serve, ``check`` refuses by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import triton

from flashcore._fp8 import BYTE
from flashcore._tensors import DTYPES
from flashcore.doors.choice import RefusalError
from flashcore.doors.triton_kernel import flashcore_triton_forward

MAX_HEAD_DIM = 256
DENSE_RANK = 4
LOG2_E = math.log2(math.e)
OLDEST = (8, 0)
UNLIMITED = 2**30 - 1
"""More than any distance between a query and a key."""


class Shape(NamedTuple):
    """A tile of queries by keys, and how Triton runs it."""

    rows: int
    keys: int
    warps: int
    stages: int


SHAPES: Mapping[tuple[int, int], tuple[Shape, Shape, Shape]] = {
    (8, 0): (Shape(128, 64, 4, 3), Shape(128, 64, 8, 3), Shape(64, 32, 4, 2)),
    (9, 0): (Shape(128, 64, 8, 3), Shape(128, 128, 8, 3), Shape(128, 32, 8, 2)),
    (10, 0): (Shape(128, 64, 4, 3), Shape(128, 64, 8, 2), Shape(64, 32, 4, 2)),
}
"""For head dimensions up to 64, 128 and 256."""
SMALL = (Shape(128, 64, 4, 2), Shape(128, 32, 8, 2), Shape(64, 16, 4, 2))
"""For GPUs with 99 KB of shared memory: 8.6, 8.9 and 12.0."""
SHORT = 16


class Problem(NamedTuple):
    """Where the sequences are: integers on the device. Cache rows before ``cache_leftpad`` are not read."""

    cu_seqlens_q: Any = None
    cu_seqlens_k: Any = None
    seqused_q: Any = None
    seqused_k: Any = None
    page_table: Any = None
    cache_leftpad: Any = None


class Scores(NamedTuple):
    """How scores become weights. ``factors`` are of E4M3 queries, keys and values, float32 (batch, kv heads)."""

    scale: float | None = None
    causal: bool = False
    window: tuple[int, int] | None = None
    chunk: int = 0
    softcap: float = 0.0
    sinks: Any = None
    factors: tuple[Any, Any, Any] = (None, None, None)


def choose_shape(capability: tuple[int, int], head_dim: int, rows: int) -> Shape:
    """Choose the tile for a GPU."""
    large = capability[0] == 9 or capability in SHAPES or capability == (10, 3)  # noqa: PLR2004 - Hopper
    shape = (SHAPES.get((capability[0], 0), SMALL) if large else SMALL)[0 if head_dim <= 64 else 1 if head_dim <= 128 else 2]  # noqa: PLR2004
    return shape if rows > SHORT else shape._replace(rows=SHORT, warps=4)


def check(tensors: tuple[torch.Tensor, ...], problem: Problem, scores: Scores, out: torch.Tensor | None) -> None:
    """RefusalError unless the kernel serves all of it, and reads no memory of others."""
    _check_types(tensors)
    q, k, v = tensors
    _check_shapes(q, k, v, problem)
    kv_heads = k.shape[-2]
    batch = get_batch(q, problem)
    if scores.chunk < 0:
        raise RefusalError(f"attention_chunk: must be 0 or more, is {scores.chunk}")
    if scores.sinks is not None:
        _check_shape("sinks", scores.sinks, q, (q.shape[-2],))
    for name, factor, tensor in zip("qkv", scores.factors, tensors, strict=True):
        if factor is not None and tensor.dtype is not BYTE:
            raise RefusalError(f"{name}_descale: is for E4M3, and {name} is {tensor.dtype}. Pass None")
        if factor is not None:
            _check_shape(f"{name}_descale", factor, q, (batch, kv_heads))
    if out is not None:
        _check_shape("out", out, q, tuple(q.shape))
        if out.dtype != get_type(q) or out.stride(-1) != 1:
            raise RefusalError(f"out: must be {get_type(q)} with contiguous columns, is {out.dtype}")


def _check_types(tensors: tuple[torch.Tensor, ...]) -> None:
    q, k, v = tensors
    if q.device.type != "cuda" and not triton.knobs.runtime.interpret:
        raise RefusalError(f"q: is on {q.device}, and the Triton kernel needs a GPU")
    if q.device.type == "cuda" and torch.cuda.get_device_capability(q.device) < OLDEST:
        raise RefusalError("q: the Triton kernel needs a GPU of compute capability 8.0 or newer")
    if q.dtype not in {*DTYPES, BYTE} or k.dtype not in {q.dtype, BYTE} or v.dtype != k.dtype:
        raise RefusalError(f"q, k, v: must be float16, bfloat16 or E4M3, are {q.dtype}, {k.dtype} and {v.dtype}")


def _check_shapes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, problem: Problem) -> None:
    batch = get_batch(q, problem)
    if q.dim() != DENSE_RANK - (problem.cu_seqlens_q is not None) or k.dim() != DENSE_RANK - (problem.cu_seqlens_k is not None):
        raise RefusalError(f"q, k: have {q.dim()} and {k.dim()} dimensions. Packed sequences have 3, others and caches 4")
    (heads, d), kv_heads = q.shape[-2:], k.shape[-2]
    if d > MAX_HEAD_DIM or not kv_heads or heads % kv_heads:
        raise RefusalError(f"q: the Triton kernel needs d up to {MAX_HEAD_DIM} and heads that k's divide, has {tuple(q.shape)}")
    leading = k.shape[:-1] if problem.cu_seqlens_k is not None or problem.page_table is not None else (batch, *k.shape[1:-1])
    for name, tensor in (("k", k), ("v", v)):
        _check_shape(name, tensor, q, (*leading, d))
    if not q.stride(-1) == k.stride(-1) == v.stride(-1) == 1:
        raise RefusalError("q, k, v: the Triton kernel needs contiguous columns")
    shapes = {"cu_seqlens_q": (batch + 1,), "cu_seqlens_k": (batch + 1,)} | dict.fromkeys(
        ("seqused_q", "seqused_k", "cache_leftpad"), (batch,)
    )
    for name, value in problem._asdict().items():
        if value is not None:
            _check_shape(name, value, q, shapes.get(name) or (batch, value.shape[-1]))
            if value.is_floating_point():
                raise RefusalError(f"{name}: must have whole numbers, has {value.dtype}")


def _check_shape(name: str, tensor: torch.Tensor, q: torch.Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape or tensor.device != q.device:
        raise RefusalError(f"{name}: must have shape {shape} on {q.device}, has {tuple(tensor.shape)} on {tensor.device}")


def get_batch(q: torch.Tensor, problem: Problem) -> int:
    """Return the number of sequences."""
    return q.shape[0] if problem.cu_seqlens_q is None else problem.cu_seqlens_q.numel() - 1


def get_type(q: torch.Tensor) -> torch.dtype:
    """Return the output's type: bfloat16 for E4M3."""
    return torch.bfloat16 if q.dtype is BYTE else q.dtype


def attend(
    tensors: tuple[torch.Tensor, ...], problem: Problem, scores: Scores, out: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Launch the kernel. Tensors are (batch, rows, heads, d), packed ones (all rows, heads, d), and pages (pages, keys, heads, d)."""
    q, k, v = tensors
    problem = Problem(*map(_adjoin, problem))
    packed, table = problem.cu_seqlens_q is not None, problem.page_table
    (heads, d), kv_heads, batch = q.shape[-2:], k.shape[-2], get_batch(q, problem)
    rows = q.shape[0] if packed else q.shape[1]  # of a sequence at most
    keys = k.shape[-3] * (1 if table is None else table.shape[1])
    page = 0 if table is None else k.shape[1] if table.shape[1] > 1 else -1
    out = torch.empty(q.shape, dtype=get_type(q), device=q.device) if out is None else out
    shape = (heads, rows) if packed else (batch, heads, rows)
    lse = torch.full(shape, -math.inf, dtype=torch.float32, device=q.device)
    if not (batch and rows and heads):
        return out, lse
    left, right = (UNLIMITED if side < 0 else min(side, UNLIMITED) for side in scores.window or (-1, -1))
    right, chunk, cap = 0 if scores.causal else right, min(scores.chunk, UNLIMITED), scores.softcap
    scale = 1 / math.sqrt(d) if scores.scale is None else float(scores.scale)
    factors = _multiply(scores.factors, batch, kv_heads)
    tile = choose_shape(torch.cuda.get_device_capability(q.device) if q.device.type == "cuda" else (8, 0), d, rows)
    strides = [stride for tensor in (q, k, v, out) for stride in (0, *tensor.stride())[-4:-1]]
    grid = (triton.cdiv(rows, tile.rows), heads, batch)
    with torch.cuda.device(q.device) if q.device.type == "cuda" else torch.no_grad():
        flashcore_triton_forward[grid](
            q, k, v, out, lse, *(q if tensor is None else tensor for tensor in (_adjoin(scores.sinks), factors, *problem)),
            scale / cap if cap else scale * LOG2_E, LOG2_E * cap if cap else 1.0, left, right, chunk, rows, keys, heads // kv_heads,
            0 if table is None else table.stride(0), *strides, 0 if packed else lse.stride(0), lse.stride(-2),
            PACKED_Q=packed, PACKED_K=problem.cu_seqlens_k is not None, USED_Q=problem.seqused_q is not None,
            USED_K=problem.seqused_k is not None, PAGE=page, PADDED=problem.cache_leftpad is not None,
            LEFT=chunk > 0 or left < UNLIMITED, RIGHT=chunk > 0 or right < UNLIMITED, CHUNK=chunk > 0,
            SOFTCAP=bool(cap), SINKS=scores.sinks is not None, SCALED=factors is not None, M=tile.rows, N=tile.keys, D=d,
            WIDTH=max(16, triton.next_power_of_2(d)), num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
    return out, lse


def _adjoin(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """Copy what is not adjacent in memory. The kernel reads a table by the stride of its rows."""
    return tensor if tensor is None or tensor.stride(-1) == 1 else tensor.contiguous()


def _multiply(factors: tuple[Any, Any, Any], batch: int, kv_heads: int) -> torch.Tensor | None:
    """Return the factors of scores and of outputs, (batch, kv heads, 2)."""
    given = [factor for factor in factors if factor is not None]
    if not given:
        return None
    ones = torch.ones((batch, kv_heads), dtype=torch.float32, device=given[0].device)
    q, k, v = (ones if factor is None else factor for factor in factors)
    return torch.stack((q * k, v), -1).float()
