"""Call the Triton kernel with the arguments of FlashCore's functions.

It serves float16 and bfloat16 with head dimensions up to 256, shared key heads, causal masks, windows, caps, sinks, packed sequences, caches
and pages. It computes no gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import triton

from flashcore.doors.triton_kernel import flashcore_triton_forward

MAX_HEAD_DIM = 256
DENSE_RANK = 4
LOG2_E = math.log2(math.e)
OLDEST = (8, 0)


class Shape(NamedTuple):
    """A tile of queries by keys, and how Triton runs it."""

    rows: int
    keys: int
    warps: int
    stages: int


SHAPES: Mapping[tuple[int, int], tuple[Shape, Shape, Shape]] = {
    (8, 0): (Shape(128, 64, 4, 3), Shape(128, 64, 8, 3), Shape(64, 32, 4, 2)),
    (9, 0): (Shape(128, 128, 8, 2), Shape(128, 64, 8, 3), Shape(128, 32, 8, 2)),
    (10, 0): (Shape(128, 64, 4, 3), Shape(128, 64, 8, 2), Shape(64, 32, 4, 2)),
}
"""For head dimensions up to 64, 128 and 256."""
SMALL = (Shape(128, 64, 4, 2), Shape(128, 32, 8, 2), Shape(64, 16, 4, 2))
"""For GPUs with 99 KB of shared memory: 8.6, 8.9 and 12.0."""
SHORT = 16


class Problem(NamedTuple):
    """The arguments that differ between the functions."""

    starts_q: Any = None
    starts_k: Any = None
    used_q: Any = None
    used_k: Any = None
    table: Any = None


def choose_shape(capability: tuple[int, int], head_dim: int, rows: int) -> Shape:
    """Choose the tile for a GPU."""
    large = capability[0] == 9 or capability in SHAPES or capability == (10, 3)  # noqa: PLR2004 - Hopper
    shape = (SHAPES.get((capability[0], 0), SMALL) if large else SMALL)[0 if head_dim <= 64 else 1 if head_dim <= 128 else 2]  # noqa: PLR2004
    return shape if rows > SHORT else shape._replace(rows=SHORT, warps=4)


def call(name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the result, or None for arguments that the kernel does not serve."""
    if name not in _TRANSLATIONS:  # E4M3
        return None
    prepared = _TRANSLATIONS[name](*arguments, **options)
    if prepared is None:
        return None
    tensors, problem, (causal, scale, window, softcap, sinks), out, return_lse = prepared
    if not is_served(*tensors) or (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)):
        return None
    left, right = window or (-1, -1)
    result = attend(*tensors, problem, scale=scale, sides=(left, 0 if causal else right), softcap=softcap, sinks=sinks, out=out)
    return result if return_lse else result[0]


def is_served(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    """Return whether the kernel serves these tensors."""
    types = q.dtype in {torch.float16, torch.bfloat16} and q.dtype == k.dtype == v.dtype
    shapes = q.shape[-1] == k.shape[-1] == v.shape[-1] <= MAX_HEAD_DIM and q.shape[-2] % max(k.shape[-2], 1) == 0
    device = q.device == k.device == v.device and (q.device.type == "cuda" or triton.knobs.runtime.interpret)
    modern = q.device.type != "cuda" or torch.cuda.get_device_capability(q.device) >= OLDEST
    return types and shapes and device and modern and q.stride(-1) == k.stride(-1) == v.stride(-1) == 1


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, problem: Problem, *, scale: float | None, sides: tuple[int, int],
    softcap: float, sinks: torch.Tensor | None, out: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Launch the kernel. Tensors are (batch, rows, heads, d), packed ones (all rows, heads, d), and pages (pages, keys, heads, d)."""
    packed, paged = q.dim() < DENSE_RANK, problem.table is not None
    heads, d = q.shape[-2:]
    batch = problem.starts_q.shape[0] - 1 if packed else q.shape[0]
    rows = q.shape[0] if packed else q.shape[1]  # of a sequence at most
    keys = problem.table.shape[1] * k.shape[1] if paged else k.shape[-3]
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device) if out is None else out
    shape = (heads, rows) if packed else (batch, heads, rows)
    lse = torch.full(shape, -math.inf, dtype=torch.float32, device=q.device)
    scale = 1 / math.sqrt(d) if scale is None else float(scale)
    cap = LOG2_E * softcap if softcap else 1.0
    capability = torch.cuda.get_device_capability(q.device) if q.device.type == "cuda" else (8, 0)
    tile = choose_shape(capability, d, rows)
    if not (batch and rows and heads):
        return out, lse
    strides = [stride for tensor in (q, k, v, out) for stride in (0, *tensor.stride())[-4:-1]]
    grid = (triton.cdiv(rows, tile.rows), heads, batch)
    with torch.cuda.device(q.device) if q.device.type == "cuda" else torch.no_grad():
        flashcore_triton_forward[grid](
            q, k, v, out, lse, *(q if tensor is None else tensor for tensor in (sinks, *problem)),
            scale / softcap if softcap else scale * LOG2_E, cap, *sides, rows, keys, heads // max(k.shape[-2], 1),
            problem.table.stride(0) if paged else 0, *strides, 0 if packed else lse.stride(0), lse.stride(-2),
            PACKED_Q=packed, PACKED_K=problem.starts_k is not None, USED_Q=problem.used_q is not None,
            USED_K=problem.used_k is not None, PAGE=k.shape[1] if paged else 0, LEFT=sides[0] >= 0, RIGHT=sides[1] >= 0,
            SOFTCAP=bool(softcap), SINKS=sinks is not None, M=tile.rows, N=tile.keys, D=d,
            WIDTH=max(16, triton.next_power_of_2(d)), num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
    return out, lse


def _translate_dense(
    q: Any, k: Any, v: Any, *, causal: bool = False, scale: Any = None, return_lse: bool = False, out: Any = None, window: Any = None,
    softcap: float = 0.0, sinks: Any = None, chunk: int = 0, **others: Any,
) -> Any:  # fmt: skip
    if chunk or any(value is not None for value in others.values()):
        return None
    return (q, k, v), Problem(), (causal, scale, window, softcap, sinks), out, return_lse


def _translate_varlen(
    q: Any, k: Any, v: Any, starts_q: Any, starts_k: Any = None, *, seqused_q: Any = None, seqused_k: Any = None, page_table: Any = None,
    **options: Any,
) -> Any:  # fmt: skip
    dense = _translate_dense(q, k, v, **options)
    return dense and (dense[0], Problem(starts_q, starts_k, seqused_q, seqused_k, page_table), *dense[2:])


def _rename(options: dict[str, Any]) -> dict[str, Any]:
    """Drop FlashAttention-3's arguments that only change how a result is computed, and rename others."""
    names = {"softmax_scale": "scale", "window_size": "window", "return_attn_probs": "return_lse", "return_softmax_lse": "return_lse",
             "attention_chunk": "chunk"}  # fmt: skip
    ignored = {"deterministic", "num_splits", "pack_gqa", "sm_margin", "scheduler_metadata", "max_seqlen_q"}
    return {names.get(name, name): value for name, value in options.items() if name not in ignored}


def _translate_func(q: Any, k: Any, v: Any, scale: Any = None, causal: bool = False, **options: Any) -> Any:
    return _translate_dense(q, k, v, **{"scale": scale, "causal": causal, **_rename(options)})


def _translate_varlen_func(q: Any, k: Any, v: Any, starts_q: Any, starts_k: Any, *_longest: int, **options: Any) -> Any:
    return _translate_varlen(q, k, v, starts_q, starts_k, **_rename(options))


def _translate_cache(
    q: Any, k_cache: Any, v_cache: Any, k: Any = None, v: Any = None, *, cache_seqlens: Any = None, cu_seqlens_q: Any = None, **options: Any
) -> Any:  # fmt: skip
    table, options = options.pop("page_table", None), _rename(options)
    batch = q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1
    if isinstance(cache_seqlens, int):
        cache_seqlens = torch.full((batch,), cache_seqlens, dtype=torch.int32, device=q.device)
    prepared = _translate_dense(q, k_cache, v_cache, **options)
    if prepared is None or (cu_seqlens_q is not None and table is None) or (k is not None and not is_served(q, k_cache, v_cache)):
        return None
    if k is not None:
        from flashcore._append import append

        cache_seqlens = append((k_cache, v_cache), (k, v), cache_seqlens, table, None)
    return prepared[0], Problem(cu_seqlens_q, None, None, cache_seqlens, table), *prepared[2:]


_TRANSLATIONS: dict[str, Callable[..., Any]] = {
    "attention": _translate_dense,
    "attention_varlen": _translate_varlen,
    "flash_attn_func": _translate_func,
    "flash_attn_varlen_func": _translate_varlen_func,
    "flash_attn_with_kvcache": _translate_cache,
}
