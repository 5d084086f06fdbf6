"""What the tests of windows share: drawn options, the formula in float64, and pages."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import torch

LIMITS = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
DTYPES = (torch.bfloat16, torch.float16)
SIDES = (-1, -1, 0, 1, 7, 63, 64, 100, 127, 128, 129, 300, 1000)
TILE = {64: 128, 128: 128, 256: 64}  # keys of a KV block of the prefill


@dataclass(frozen=True, kw_only=True)
class Options:
    """What limits the keys and scores of a call."""

    left: int = -1
    right: int = -1
    chunk: int = 0
    causal: bool = False
    softcap: float = 0.0
    sinks: Any = None
    scale: float | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of our functions."""
        window = None if self.left < 0 and self.right < 0 else (self.left, self.right)
        return {
            "window": window, "chunk": self.chunk, "causal": self.causal, "softcap": self.softcap, "sinks": self.sinks,
            "scale": self.scale,
        }  # fmt: skip

    def see(self, sq: int, sk: int) -> Any:
        """Return which keys each query sees."""
        position = torch.arange(sq, device="cuda")[:, None] + sk - sq
        key = torch.arange(sk, device="cuda")[None]
        seen = torch.ones((sq, sk), dtype=torch.bool, device="cuda")
        right = 0 if self.causal else self.right
        if self.left >= 0:
            seen &= key >= position - self.left
        if right >= 0:
            seen &= key <= position + right
        if self.chunk > 0:
            seen &= key // self.chunk == torch.div(position, self.chunk, rounding_mode="floor")
        return seen


def attend(q: Any, k: Any, v: Any, options: Options) -> tuple[Any, Any]:
    """Compute one sequence, (rows, heads, d), in float64. Return the output and the log-sum-exp (heads, rows)."""
    sq, h, d = q.shape
    sk, hkv = k.shape[:2]
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(h // hkv, dim=0) for x in (k, v))
    scores = q @ k.transpose(1, 2) * (d**-0.5 if options.scale is None else options.scale)
    if options.softcap:
        scores = options.softcap * torch.tanh(scores / options.softcap)
    scores = scores.masked_fill(~options.see(sq, sk), -math.inf)
    if options.sinks is not None:
        scores = torch.cat([scores, options.sinks.double()[:, None, None].expand(h, sq, 1)], dim=2)
        v = torch.cat([v, torch.zeros_like(v[:, :1]) if sk else v.new_zeros((h, 1, d))], dim=1)
    if not scores.shape[2]:
        return torch.zeros((sq, h, d), dtype=torch.float64, device="cuda"), torch.full((h, sq), -math.inf, device="cuda").double()
    lse = torch.logsumexp(scores, dim=2)
    weights = torch.nan_to_num(torch.exp(scores - lse[..., None]), nan=0.0)
    return (weights @ v).transpose(0, 1), lse


def compare(got: tuple[Any, Any], right: tuple[Any, Any], dtype: Any, factor: float = 1.0) -> str:
    """Return what is wrong, or an empty string."""
    (out, lse), (right_out, right_lse) = got, right
    if not out.numel():
        return ""
    error = float(((out.double() - right_out).abs() / (1 + right_out.abs())).max())
    difference = float(
        (torch.nan_to_num(lse.double() - right_lse, nan=0.0).abs() / (1 + torch.nan_to_num(right_lse).abs())).max()
    )
    same = torch.equal(lse.isinf(), right_lse.isinf()) and not bool(lse.isnan().any())
    return (
        "" if error < factor * LIMITS[dtype] and difference < factor * 1e-4 and same else f"{error:.2e} {difference:.2e} {same}"
    )


def draw(rng: random.Random, h: int, *, softcap: bool | None = None) -> Options:
    """Draw options."""
    sinks = rng.choice((None, torch.float32, torch.bfloat16))
    capped = rng.random() < 0.3 if softcap is None else softcap
    return Options(
        left=rng.choice(SIDES), right=rng.choice(SIDES), chunk=rng.choice((0, 0, 0, 1, 64, 100, 128, 777)),
        causal=rng.random() < 0.4, softcap=rng.choice((0.5, 5.0, 30.0)) if capped else 0.0,
        sinks=None if sinks is None else torch.randn(h, device="cuda").mul(3).to(sinks),
    )  # fmt: skip


def randn(*shape: int, dtype: Any) -> Any:
    return torch.randn(shape, device="cuda").to(dtype)


def make_batch(rng: random.Random, longest_q: int) -> list[tuple[int, int]]:
    lengths = [
        (rng.choice((0, 1, 5, longest_q, rng.randrange(1, longest_q + 1))), rng.choice((0, 1, 130, rng.randrange(900))))
        for _ in range(6)
    ]
    return lengths if any(sq for sq, _ in lengths) else [(1, 1), *lengths]


def cumulate(lengths: list[int]) -> Any:
    return torch.tensor([0, *lengths], device="cuda").cumsum(0).to(torch.int32)


def fill_pages(k: Any, v: Any, lengths: list[int], page: int, order: random.Random) -> tuple[Any, Any, Any]:
    """Put packed keys into pages in random order. The table's other entries are garbage, the pages' other keys NaN."""
    counts = [-(-n // page) for n in lengths]
    total = sum(counts) + 2
    numbers = order.sample(range(total), total)
    pool = [torch.full((total, page, *x.shape[1:]), math.nan, dtype=x.dtype, device="cuda") for x in (k, v)]
    table = torch.full((len(lengths), max(counts) + 2), -1, dtype=torch.int32)
    table[:, -1] = 2**31 - 1
    row = 0
    for i, n in enumerate(lengths):
        for j in range(counts[i]):
            table[i, j] = number = numbers.pop()
            keys = min(page, n - j * page)
            for pages, x in zip(pool, (k, v), strict=True):
                pages[number, :keys] = x[row : row + keys]
            row += keys
    return (*pool, table.cuda())


def check_packed(out: Any, lse: Any, tensors: Any, lengths: list[tuple[int, int]], options: Options, dtype: Any) -> None:
    (q, k, v), row, key = tensors, 0, 0
    for sq, sk in lengths:
        right = attend(q[row : row + sq], k[key : key + sk], v[key : key + sk], options)
        wrong = compare((out[row : row + sq], lse[:, row : row + sq]), right, dtype)
        assert not wrong, (wrong, sq, sk, options)
        row, key = row + sq, key + sk
