"""Forward attention on torch tensors of any strides.

The head dimension must be contiguous, and every other stride a multiple of 16 bytes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from flashcore._launch import Entry, Launch, Tensors, make_launch
from flashcore._local import Structure, make_limits, set_limits
from flashcore._tensors import (
    DTYPES,
    Operand,
    Result,
    check_distinct,
    check_exactly,
    check_like_query,
    check_rank,
    get_ordinal,
    get_scale,
    get_strides,
    make_operand,
    to_int,
)

# layout -> positions of (batch, sequence, heads) in the shape
LAYOUTS = {"bshd": (0, 1, 2), "bhsd": (0, 2, 1)}
RANK = 4
TILE_COUNTER_BYTES = 8  # the workspace


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
        ("sinks", ctypes.c_void_p),
        ("loaded_tiles", ctypes.c_void_p),
        ("lse", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("local", Structure),
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
    window: Sequence[int] | None = None,
    chunk: int = 0,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
    loaded_tiles: torch.Tensor | None = None,
) -> Result:
    """Compute softmax(scale * q @ k^T) @ v on the current stream of ``q``'s device.

    Args:
        q: Queries, float16 or bfloat16: (batch, queries, heads, d), or with ``layout="bhsd"`` (batch, heads, queries, d).
        k: Keys in the same layout. Their heads divide the queries'.
        v: Values, like ``k``.
        causal: Mask aligned bottom right. A row that sees no key gives 0 and a log-sum-exp of -inf.
        scale: Any finite number, by default 1/sqrt(d).
        return_lse: Also return the natural log-sum-exp, float32 (batch, heads, queries).
        layout: "bshd" or "bhsd".
        out: Receives the output. It must not share memory with an input.
        lse: Receives the log-sum-exp.
        max_ctas: Most persistent blocks. 0: one per multiprocessor.
        window: A query at position p, aligned bottom right, sees the keys p - left to p + right. A negative side is unlimited.
        chunk: A query sees the keys of its own chunk of so many positions. 0: all.
        softcap: Scores become ``softcap * tanh(scale * q @ k^T / softcap)``. 0: they stay.
        sinks: A logit per query head that joins the softmax without a value, float32 or bfloat16 (heads,), not scaled.
        loaded_tiles: int32 (1,), to which the launch adds the key tiles that it loads.
    """
    result: Result = _ENTRY(
        (q, k, v, out, sinks, loaded_tiles, lse),
        (layout, causal, scale, max_ctas, make_limits(window, chunk, softcap)),
        return_lse=return_lse,
    )
    return result


def _prepare(tensors: Tensors, options: tuple[Any, ...]) -> Launch:
    """Check what the C code cannot see, and fill the structure in."""
    q, k, v, out, sinks, loaded, lse = tensors
    layout, causal, scale, max_ctas, limits = options
    batch, sq, heads, head_dim = _get_shape(q, "q", layout)
    _, sk, kv_heads, _ = _get_shape(k, "k", layout)
    like_query, like_keys = (batch, sq, heads, head_dim), (batch, sk, kv_heads, head_dim)
    for name, tensor, shape in (("q", q, like_query), ("k", k, like_keys), ("v", v, like_keys), ("out", out, like_query)):
        if tensor is not None:
            _check(tensor, q, name, shape, layout)
    if out is not None:
        check_distinct(out, "out")
    if lse is not None:
        check_exactly(lse, q, "lse", torch.float32, (batch, heads, sq))
    arguments = Arguments(
        size=ctypes.sizeof(Arguments),
        device=get_ordinal(q),
        dtype=DTYPES[q.dtype],
        max_ctas=to_int(max_ctas, "max_ctas"),
        scale=get_scale(scale, head_dim),
        batch=batch,
        heads=heads,
        kv_heads=kv_heads,
        sq=sq,
        sk=sk,
        head_dim=head_dim,
        q=make_operand(q.stride(), *LAYOUTS[layout]),
        k=make_operand(k.stride(), *LAYOUTS[layout]),
        v=make_operand(v.stride(), *LAYOUTS[layout]),
        out=make_operand(get_strides(out, q.shape), *LAYOUTS[layout]),
    )
    set_limits(arguments, q, limits, (sinks, loaded), causal=causal, longest=(sq, sk))
    return make_launch(arguments, q, (batch, heads, sq), workspace_bytes=TILE_COUNTER_BYTES)


_ENTRY = Entry(
    "attention",
    "flashcore_attention_forward",
    Arguments,
    prepare=_prepare,
    operands=("q", "k", "v", "out"),
    pointers=("sinks", "loaded_tiles"),
)


def _get_shape(tensor: torch.Tensor, name: str, layout: str) -> tuple[int, int, int, int]:
    """Return (batch, sequence, heads, head dimension) in either layout."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout: must be one of {', '.join(LAYOUTS)}, is {layout!r}")
    check_rank(tensor, RANK, name, f"({layout})")
    batch, sequence, heads = (tensor.shape[position] for position in LAYOUTS[layout])
    return batch, sequence, heads, tensor.shape[3]


def _check(tensor: torch.Tensor, query: torch.Tensor, name: str, shape: tuple[int, int, int, int], layout: str) -> None:
    check_like_query(tensor, query, name)
    actual = _get_shape(tensor, name, layout)
    if actual != shape:
        raise ValueError(f"{name}: (batch, sequence, heads, head_dim) must be {shape}, is {actual}")
