"""The problems of serving on which kernels are compared: decode over caches, and prefill of sequences of different lengths. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from peerbench.rows import PEERS as DENSE_PEERS

CONTIGUOUS = "contiguous"
"""In rows with pages: ours on the same keys and values without pages."""

PEERS = {**DENSE_PEERS, CONTIGUOUS: "FlashCore, contiguous"}
ELEMENT_BYTES = 2
SHORTEST = 128  # of the longest, in a ragged batch
CALLS = 16  # in a graph, each on a cache of its own


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ServingRow:
    """``b`` sequences of up to ``s`` keys with ``h`` query and ``hkv`` key heads of ``d`` elements."""

    suite: str  # contiguous, paged, ragged, latency: one new query a sequence; varlen: as many queries as keys
    b: int
    h: int
    hkv: int
    s: int
    d: int
    page: int = 0
    causal: bool = False
    dtype: str = "bf16"

    @property
    def shape(self) -> str:
        """Batch, query and key heads, length, head dimension, as tables write them."""
        return f"{self.b}·{self.h}/{self.hkv}·{self.s}·{self.d}"

    @property
    def lengths(self) -> list[int]:
        """Of each sequence: ``s``, or log-uniform from s/128 to s, short and long by turns, as the gate's ragged workload has them."""
        if self.suite not in {"ragged", "varlen"}:
            return [self.s] * self.b
        order = [self.b - 1 - i // 2 if i % 2 else i // 2 for i in range(self.b)]
        return [round(self.s * float(SHORTEST) ** ((place + 0.5) / self.b - 1.0)) for place in order]

    @property
    def starts(self) -> list[int]:
        """Where sequences begin when they lie one behind the other, and where the last one ends."""
        return [0, *accumulate(self.lengths)]

    @property
    def bytes(self) -> float:
        """Of the keys and values that a decode must read."""
        return float(2 * ELEMENT_BYTES * self.hkv * self.d * sum(self.lengths))

    @property
    def flops(self) -> float:
        """Of a prefill: four for each visible pair and element."""
        pairs = sum(n * (n + 1) // 2 if self.causal else n * n for n in self.lengths)
        return 4.0 * self.h * self.d * pairs


SEVEN = (
    {"b": 32, "h": 32, "hkv": 8, "s": 4096, "d": 128},
    {"b": 64, "h": 32, "hkv": 8, "s": 8192, "d": 128},
    {"b": 8, "h": 32, "hkv": 8, "s": 32768, "d": 128},
    {"b": 1, "h": 32, "hkv": 8, "s": 131072, "d": 128},
    {"b": 16, "h": 16, "hkv": 16, "s": 8192, "d": 64},
    {"b": 32, "h": 32, "hkv": 32, "s": 4096, "d": 128},
    {"b": 16, "h": 64, "hkv": 8, "s": 16384, "d": 128},
)
IN_PAGES = (0, 1, 2, 4)
PAGE_SIZES = (16, 64, 256)


def table() -> list[ServingRow]:
    """Every row, suite by suite."""
    return [
        *(ServingRow(suite="contiguous", **row) for row in SEVEN),
        *(ServingRow(suite="paged", page=page, **SEVEN[place]) for place in IN_PAGES for page in PAGE_SIZES),
        ServingRow(suite="ragged", b=32, h=32, hkv=8, s=32768, d=128),
        *(ServingRow(suite="latency", b=b, h=32, hkv=8, s=s, d=128) for b in (1, 4) for s in (4096, 8192)),
        *(
            ServingRow(suite="varlen", b=32, h=16, hkv=16, s=32768, d=d, causal=causal, dtype="fp16")
            for d in (64, 128)
            for causal in (False, True)
        ),
    ]
