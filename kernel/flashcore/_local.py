"""Windows, chunks, capped scores and sinks: what the bindings and operators make of FlashAttention-3's arguments."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import torch

from flashcore._tensors import check_exactly, to_float, to_int

SINK_TYPES = {torch.float32: 0, torch.bfloat16: 1}
MAX_INT32 = 2**31 - 1


class Structure(ctypes.Structure):
    """Mirror of FlashcoreLocal in flashcore/core/local_arguments.h."""

    _fields_ = [
        ("enabled", ctypes.c_int32),
        ("window_left", ctypes.c_int32),
        ("window_right", ctypes.c_int32),
        ("chunk", ctypes.c_int32),
        ("softcap", ctypes.c_float),
        ("sinks_dtype", ctypes.c_int32),
    ]


class Limits(NamedTuple):
    """The window, the chunk and the cap of a call. A negative side is unlimited, and 0 means none."""

    window: Any = (-1, -1)
    chunk: Any = 0
    softcap: Any = 0.0


NO_LIMITS = Limits()


def make_limits(window: Any, chunk: Any, softcap: Any) -> Limits:
    """Collect arguments of a call, which may be None or a list, as something that hashes."""
    if window is None and not chunk and not softcap:
        return NO_LIMITS
    return Limits((-1, -1) if window is None else tuple(window), chunk, softcap)


class Local(NamedTuple):
    """The limits and sinks of a call."""

    limits: Limits = NO_LIMITS
    sinks: Any = None

    def name_options(self) -> dict[str, Any]:
        """Return the keyword arguments of the kernels' functions, none where all are the default."""
        if self is NOTHING:
            return {}
        window, chunk, softcap = self.limits
        return {"window": window, "chunk": chunk, "softcap": softcap, "sinks": self.sinks}


NOTHING = Local()


def make_local(window: Any, chunk: Any, softcap: Any, sinks: Any) -> Local:
    """Collect FlashAttention-3's arguments."""
    limits = make_limits(window, chunk, softcap)
    return NOTHING if sinks is None and (limits is NO_LIMITS or limits == NO_LIMITS) else Local(limits, sinks)


def set_limits(
    arguments: Any, query: torch.Tensor, limits: Any, tensors: tuple[Any, Any], *, causal: Any, longest: tuple[int, int]
) -> None:
    """Set ``causal`` and ``local`` of the arguments. The plain kernels serve what they can.

    ``tensors`` are the sinks and the counter of loaded tiles, ``longest`` the most queries and keys of a sequence.
    """
    for name, value in _describe(query, Limits(*limits), tensors, causal=causal, heads=arguments.heads, longest=longest).items():
        setattr(arguments, name, value)


def _describe(
    query: torch.Tensor, limits: Limits, tensors: tuple[Any, Any], *, causal: Any, heads: int, longest: tuple[int, int]
) -> dict[str, Any]:
    sinks, loaded = tensors
    if limits == NO_LIMITS and sinks is None and loaded is None:
        return {"causal": bool(causal)}
    if len(limits.window) != len(NO_LIMITS.window):
        raise ValueError(f"window: must be (left, right), is {limits.window!r:.40}")
    left, right = (
        -1 if side < 0 or side >= length - 1 else side
        for side, length in zip((to_int(side, "window") for side in limits.window), reversed(longest), strict=True)
    )
    right, chunk, softcap = 0 if causal else right, to_int(limits.chunk, "chunk"), to_float(limits.softcap, "softcap")
    if not 0 <= chunk <= MAX_INT32:
        raise ValueError(f"chunk: must be from 0 to {MAX_INT32}, is {chunk}")
    if sinks is not None:
        _check_sinks(sinks, query, heads)
    if loaded is not None:
        check_exactly(loaded, query, "loaded_tiles", torch.int32, (1,))
    if left < 0 and right <= 0 and not chunk and not softcap and sinks is None and loaded is None:
        return {"causal": right == 0}
    kind = 0 if sinks is None else SINK_TYPES[sinks.dtype]
    return {"causal": False, "local": Structure(1, left, right, chunk, softcap, kind)}


def _check_sinks(sinks: Any, query: torch.Tensor, heads: int) -> None:
    if getattr(sinks, "dtype", None) not in SINK_TYPES:
        raise ValueError(f"sinks: must be a tensor of float32 or bfloat16, is {getattr(sinks, 'dtype', type(sinks).__name__)}")
    check_exactly(sinks, query, "sinks", sinks.dtype, (heads,))
