"""Windows, chunks, capped scores and sinks for the subjects of attention and decode."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

LIMITS: Mapping[str, Any] = {"left": -1, "right": -1, "chunk": 0, "softcap": 0.0}
SINKS = ("", "fp32", "bf16")
ROWS_AND_KEYS = {64: (192, 128), 128: (128, 128), 256: (128, 64)}
"""Tiles of the prefill, by the largest head dimension (kernel/variants.toml)."""
ROWS_WITH_CAP = 128


def is_limited(inputs: Mapping[str, Any]) -> bool:
    """Return whether a call has any of these."""
    return inputs.get("sinks") is not None or any(inputs.get(name, default) != default for name, default in LIMITS.items())


def check(p: Mapping[str, Any]) -> None:
    """ValueError names the parameter that cannot be a limit."""
    for name in ("left", "right", "chunk"):
        if not isinstance(p[name], int) or p[name] < LIMITS[name]:
            raise ValueError(f"{name}: must be a whole number from {LIMITS[name]} on, is {p[name]!r}")
    if p["softcap"] < 0:
        raise ValueError(f"softcap: must be zero or more, is {p['softcap']!r}")
    if p["sinks"] not in SINKS:
        raise ValueError(f"sinks: must be one of {', '.join(map(repr, SINKS))}, is {p['sinks']!r}")


def needs_local(p: Mapping[str, Any]) -> bool:
    """Return whether the parameters need a local entry function."""
    return bool(p["sinks"]) or any(p[name] != default for name, default in LIMITS.items())


def see(position: int, keys: int, limits: Mapping[str, Any]) -> tuple[int, int]:
    """Return the first key that a position sees, and the end."""
    left, right, chunk = limits["left"], 0 if limits["causal"] else limits["right"], limits["chunk"]
    first = max(0, position - left) if left >= 0 else 0
    last = min(keys, position + right + 1) if right >= 0 else keys
    if chunk:
        start = position // chunk * chunk
        first, last = max(first, start), min(last, start + chunk)
    return (first, last) if first < last else (0, 0)


def options(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of our functions, none without a limit."""
    if not is_limited(inputs):
        return {}
    window = (inputs["left"], inputs["right"])
    return {"window": window, "chunk": inputs["chunk"], "softcap": inputs["softcap"], "sinks": inputs.get("sinks")}


def flash_options(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of FlashAttention-3's functions."""
    names = {"window": "window_size", "chunk": "attention_chunk"}
    return {names.get(name, name): value for name, value in options(inputs).items()}


def compute(q: Any, k: Any, v: Any, inputs: Mapping[str, Any], chunk_bytes: int) -> tuple[Any, Any]:
    """Compute the formula on (b, h, rows, d), in chunks of query rows. Of 16-bit inputs the probabilities have 16 bits."""
    import torch

    dtype = torch.promote_types(q.dtype, torch.float32)
    b, h, sq, d = q.shape
    sk = k.shape[2]
    out = torch.zeros((b, h, sq, d), dtype=q.dtype, device=q.device)
    lse = torch.full((b, h, sq), -math.inf, dtype=dtype, device=q.device)
    rows = max(1, chunk_bytes // max(1, sk * dtype.itemsize))
    for batch, head, start in itertools.product(range(b), range(h), range(0, sq, rows)):
        part = slice(start, min(sq, start + rows))
        scores = _limit(q[batch, head, part].to(dtype) @ k[batch, head].to(dtype).T / math.sqrt(d), part, sk - sq, inputs)
        if inputs.get("sinks") is not None:
            sink = inputs["sinks"][head].to(dtype).expand(len(scores), 1)
            scores = torch.cat([scores, sink], dim=1)
        if scores.shape[1]:
            lse[batch, head, part] = total = torch.logsumexp(scores, dim=-1)
            weights = torch.exp(scores[:, :sk] - total[:, None]).nan_to_num(0.0)
            out[batch, head, part] = weights.to(q.dtype) @ v[batch, head]
    return out, lse


def compute_rows(q: Any, k: Any, v: Any, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Compute one sequence, (rows, heads, d). Return the output and the log-sum-exp (heads, rows)."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.transpose(0, 1), *(x.transpose(0, 1).repeat_interleave(group, dim=0) for x in (k, v))
    out, lse = compute(q[None], k[None], v[None], inputs, 2**30)
    return out[0].transpose(0, 1), lse[0]


def draw_sinks(p: Mapping[str, Any], generator: Any) -> dict[str, Any]:
    """Draw a sink for each query head, if there are any."""
    import torch

    if not p["sinks"]:
        return {}
    sinks = torch.randn(p["h"], generator=generator, device=generator.device)
    return {"sinks": sinks.to({"fp32": torch.float32, "bf16": torch.bfloat16}[p["sinks"]])}


def count_tiles(q: Any, k: Any, limits: Mapping[str, Any]) -> Any:
    """Count the key tiles that the prefill loads: those that some row of a query tile sees. Tensors are (b, h, rows, d)."""
    import torch

    b, h, sq, d = q.shape
    sk = k.shape[2]
    rows, keys = next(tile for largest, tile in ROWS_AND_KEYS.items() if largest >= d)
    if limits["softcap"]:
        rows = min(rows, ROWS_WITH_CAP)
    tiles = 0
    for first in range(0, sq, rows):
        seen = [see(row + sk - sq, sk, limits) for row in range(first, min(first + rows, sq))]
        seen = [(a, b) for a, b in seen if a < b]
        tiles += -(-seen[-1][1] // keys) - seen[0][0] // keys if seen else 0
    return torch.tensor([b * h * tiles], dtype=torch.float64, device=q.device)


def _limit(scores: Any, part: slice, offset: int, inputs: Mapping[str, Any]) -> Any:
    """Cap the scores of some rows, and mask them."""
    import torch

    if inputs["softcap"]:
        scores = inputs["softcap"] * torch.tanh(scores / inputs["softcap"])
    row = torch.arange(part.start, part.stop, device=scores.device)[:, None] + offset
    key = torch.arange(scores.shape[1], device=scores.device)[None]
    left, right, chunk = inputs["left"], 0 if inputs["causal"] else inputs["right"], inputs["chunk"]
    hidden = torch.zeros_like(scores, dtype=torch.bool)
    if left >= 0:
        hidden |= key < row - left
    if right >= 0:
        hidden |= key > row + right
    if chunk:
        hidden |= key // chunk != torch.div(row, chunk, rounding_mode="floor")
    return scores.masked_fill(hidden, -math.inf)
