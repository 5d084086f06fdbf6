"""The problems on which kernels are compared, and the contenders. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

FLASHCORE = "flashcore"
CONTIGUOUS = "contiguous"  # in rows with pages: FlashCore on the same keys and values without pages
PEERS = {"fa3": "FlashAttention-3", "cudnn": "cuDNN", "fa2": "FlashAttention-2"}
NAMES = {FLASHCORE: "FlashCore", **PEERS}
BEST_OF = ("fa3", "cudnn")  # the best peer of a row is the faster of these

HEADS = {64: 16, 128: 16, 256: 8}
BATCHES = {512: 64, 1024: 32, 2048: 16, 4096: 8, 8192: 4, 16384: 2}
BOTH_TYPES_AT = 2048
LONG_HEADS = 16
LONG = (16384, 32768, 65536, 131072)
ELEMENT_BYTES = 2
SHORTEST = 128  # in a ragged batch the longest sequence is 128 times as long as the shortest
CALLS = 16  # calls in a CUDA graph of the latency suite, each on its own cache
DECODE_SHAPES = (
    {"b": 32, "h": 32, "hkv": 8, "s": 4096, "d": 128},
    {"b": 64, "h": 32, "hkv": 8, "s": 8192, "d": 128},
    {"b": 8, "h": 32, "hkv": 8, "s": 32768, "d": 128},
    {"b": 1, "h": 32, "hkv": 8, "s": 131072, "d": 128},
    {"b": 16, "h": 16, "hkv": 16, "s": 8192, "d": 64},
    {"b": 32, "h": 32, "hkv": 32, "s": 4096, "d": 128},
    {"b": 16, "h": 64, "hkv": 8, "s": 16384, "d": 128},
)
PAGED_SHAPES = (0, 1, 2, 4)
PAGE_SIZES = (16, 64, 256)
RAGGED = {"b": 32, "s": 32768}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Row:
    """Attention of ``b`` sequences of up to ``s`` keys with ``h`` heads of ``d`` elements.

    Rows without a ``suite`` and of the suite ``varlen`` are prefill. Other suites decode one new query per sequence. Only rows of a
    suite have ``hkv`` key heads and pages of ``page`` keys.
    """

    b: int
    h: int
    s: int
    d: int
    causal: bool = False
    dtype: str = "bf16"
    suite: str = ""
    hkv: int = 0
    page: int = 0

    @property
    def mask(self) -> str:
        """``full`` or ``causal``."""
        return "causal" if self.causal else "full"

    @property
    def shape(self) -> str:
        """Batch, heads and length, as tables write them. In a suite also key heads and head dimension."""
        return f"{self.b}·{self.h}/{self.hkv}·{self.s}·{self.d}" if self.suite else f"{self.b}·{self.h}·{self.s}"

    @property
    def lengths(self) -> list[int]:
        """The length of each sequence. Ragged ones are log-uniform from s/128 to s, as in the gate's ragged workload."""
        if self.suite not in {"ragged", "varlen"}:
            return [self.s] * self.b
        order = [self.b - 1 - i // 2 if i % 2 else i // 2 for i in range(self.b)]
        return [round(self.s * float(SHORTEST) ** ((place + 0.5) / self.b - 1.0)) for place in order]

    @property
    def starts(self) -> list[int]:
        """Where each sequence begins in a packed batch, and where the last one ends."""
        return [0, *accumulate(self.lengths)]

    @property
    def bytes(self) -> float:
        """Bytes of the keys and values that a decode must read."""
        return float(2 * ELEMENT_BYTES * self.hkv * self.d * sum(self.lengths))

    @property
    def flops(self) -> float:
        """Floating-point operations of a prefill: four for each visible pair and element."""
        pairs = sum(n * (n + 1) // 2 if self.causal else n * n for n in self.lengths)
        return 4.0 * self.h * self.d * pairs


def prefill() -> list[Row]:
    """List the prefill rows: equal token counts, full and causal, fp16 and at one length bf16."""
    return [
        Row(d=d, b=b, h=HEADS[d], s=s, causal=causal, dtype=dtype)
        for d in HEADS
        for s, b in BATCHES.items()
        for dtype in ("fp16", "bf16")[: 2 if s == BOTH_TYPES_AT else 1]
        for causal in (False, True)
    ]


def long_context() -> list[Row]:
    """List the rows of one sequence, from the longest prefill row to eight times its length."""
    return [
        Row(d=d, b=1, h=LONG_HEADS, s=s, causal=causal, dtype="fp16") for d in (64, 128) for causal in (False, True) for s in LONG
    ]


def serving() -> list[Row]:
    """List the rows of serving, suite by suite."""
    return [
        *(Row(suite="contiguous", **shape) for shape in DECODE_SHAPES),
        *(Row(suite="paged", page=page, **DECODE_SHAPES[place]) for place in PAGED_SHAPES for page in PAGE_SIZES),
        Row(suite="ragged", h=32, hkv=8, d=128, **RAGGED),
        *(Row(suite="latency", b=b, h=32, hkv=8, s=s, d=128) for b in (1, 4) for s in (4096, 8192)),
        *(
            Row(suite="varlen", h=16, hkv=16, d=d, causal=causal, dtype="fp16", **RAGGED)
            for d in (64, 128)
            for causal in (False, True)
        ),
    ]


def parse(text: str) -> Row:
    """Read a row from ``B,H,S,D,MASK,DTYPE``. ValueError if ``text`` is not one."""
    parts = text.split(",")
    try:
        b, h, s, d = (int(part) for part in parts[:4])
        mask, dtype = parts[4:]
    except ValueError:
        raise ValueError(f"{text}: a row is B,H,S,D,MASK,DTYPE, as in 16,16,2048,64,causal,fp16") from None
    if mask not in {"full", "causal"} or dtype not in {"fp16", "bf16"} or min(b, h, s, d) < 1:
        raise ValueError(f"{text}: the mask is full or causal, the type fp16 or bf16, and the numbers are above 0")
    return Row(d=d, b=b, h=h, s=s, causal=mask == "causal", dtype=dtype)
