"""Distributions that are hard for attention in E4M3. Each function returns q, k and v (b, s, heads, 128) in float32, or ``d`` columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

D, TILE = 128, 128
CHANNEL = 5
STEP = 8  # channels by which the score of a tile is larger than the one before
MOST_TILES = 16
PEAK_QUERY, PEAK_WEIGHT = 4.0, 0.8


def _normal(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    import torch

    def draw(rows: int, heads: int) -> Any:
        return torch.randn((p["b"], rows, heads, p.get("d", D)), device=generator.device, generator=generator)

    return draw(p["sq"], p["h"]), draw(p["sk"], p["hkv"]), draw(p["sk"], p["hkv"])


def _outlier(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Make one channel of queries and keys larger by ``size``."""
    q, k, v = _normal(p, generator)
    q[..., CHANNEL] *= p["size"]
    k[..., CHANNEL] *= p["size"]
    return q, k, v


def _ones(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Draw values of 1 plus noise of 0.05, whose sums lose what the tensor cores cut off."""
    q, k, v = _normal(p, generator)
    return q, k, 1.0 + 0.05 * v


def _equal(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Make all scores equal."""
    q, k, v = _ones(p, generator)
    return q.fill_(0.5), k.fill_(0.5), v


def _rise(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Let scores rise by ``size`` powers of two per tile of 128 keys, away from the last key. A negative size: towards it.

    Each tile has ``STEP`` ones more than its neighbour, exact in E4M3. The rest is noise.
    """
    import torch

    q, k, v = _normal(p, generator)
    tiles = math.ceil(p["sk"] / TILE)
    if tiles > MOST_TILES:
        raise ValueError(f"sk: must be at most {MOST_TILES * TILE} for scores that rise, is {p['sk']}")
    tile = torch.arange(p["sk"], device=k.device) // TILE
    level = tiles - 1 - tile if p["size"] > 0 else tile
    used = STEP * (MOST_TILES - 1)
    q[..., :used] = 1.0
    k[..., :used] = (torch.arange(used, device=k.device) < STEP * level[:, None])[:, None].float()
    return q.clamp(-1.0, 1.0) * (abs(p["size"]) * math.log(2.0) * math.sqrt(D) / STEP), k.clamp(-1.0, 1.0), v


def _peak(p: Mapping[str, Any], generator: Any) -> tuple[Any, Any, Any]:
    """Give one key a weight of about 0.8, at ``size`` of the sequence: 0 is the first key, 1 the last."""
    q, k, v = _normal(p, generator)
    score = math.log(p["sk"]) + 0.5 + math.log(PEAK_WEIGHT / (1.0 - PEAK_WEIGHT))
    q[..., 0], k[..., 0] = PEAK_QUERY, 0.0
    place = round(p["size"] * (p["sk"] - 1))
    k[:, place] = 0.0
    k[:, place, :, 0] = score * math.sqrt(D) / PEAK_QUERY
    return q, k, v


INPUTS = {"normal": _normal, "outlier": _outlier, "ones": _ones, "equal": _equal, "rise": _rise, "peak": _peak}
