"""Distributions of queries, keys and values, usual ones and hard ones for an online softmax.

Each function returns q (b, sq, h, d), k and v (b, sk, hkv, d) on the generator's device, in the dtype ``draws`` (default float32).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _normal(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Draw independent normal numbers of standard deviation ``scale``."""
    import torch

    def draw(sequence: int, heads: int) -> Any:
        shape = (p["b"], sequence, heads, p["d"])
        numbers = torch.randn(shape, device=generator.device, dtype=p.get("draws", torch.float32), generator=generator)
        return numbers if p["scale"] == 1 else numbers.mul_(p["scale"])

    return draw(p["sq"], p["h"]), draw(p["sk"], p["hkv"]), draw(p["sk"], p["hkv"])


def _large(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Draw logits of standard deviation 64, so that the softmax is close to a maximum."""
    q, k, v = _normal(p, generator)
    return q * 8.0, k * 8.0, v


def _ramp(p: Mapping[str, Any], generator: Any, start: float, end: float) -> tuple[Any, Any, Any]:
    import torch

    q, k, v = _normal(p, generator)
    slope = torch.linspace(start, end, max(1, p["sk"]), device=k.device, dtype=k.dtype)[: p["sk"], None, None]
    return q.abs(), k * 0.1 + slope, v


def _rising(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Let scores rise along the keys: every tile of a left-to-right loop has a new maximum."""
    return _ramp(p, generator, 0.0, 8.0)


def _falling(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Let scores fall along the keys: the same for a right-to-left loop."""
    return _ramp(p, generator, 8.0, 0.0)


def _constant(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Make all scores equal, so that the result is the mean of the visible values."""
    q, k, v = _normal(p, generator)
    return q.fill_(0.5), k.fill_(0.5), v


def _onehot(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Let query i attend almost only to the keys whose position equals i modulo d."""
    import torch

    q, k, v = _normal(p, generator)
    eye = torch.eye(p["d"], device=q.device, dtype=q.dtype) * 16.0
    q_rows, k_rows = (eye[torch.arange(n, device=q.device) % p["d"]][:, None, :] for n in (p["sq"], p["sk"]))
    return q_rows.expand_as(q), k_rows.expand_as(k), v


INPUTS = {
    "normal": _normal,
    "large": _large,
    "rising": _rising,
    "falling": _falling,
    "constant": _constant,
    "onehot": _onehot,
}
