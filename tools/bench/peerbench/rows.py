"""The problems on which kernels are compared, and the contenders. Pure."""

from __future__ import annotations

from dataclasses import dataclass

OURS = "flashcore"
PEERS = {"fa3": "FlashAttention-3", "cudnn": "cuDNN", "fa2": "FlashAttention-2"}
"""Peers by the name that samples carry, best known first."""

BEST_OF = ("fa3", "cudnn")
"""Who counts as the best peer: whoever of these is faster on a row."""

HEADS = {64: 16, 128: 16, 256: 8}
BATCHES = {512: 64, 1024: 32, 2048: 16, 4096: 8, 8192: 4, 16384: 2}
BOTH_TYPES_AT = 2048
LONG_HEADS = 16
LONG = (16384, 32768, 65536, 131072)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Row:
    """One problem: attention of ``b`` sequences of ``s`` tokens with ``h`` heads of ``d`` elements."""

    d: int
    b: int
    h: int
    s: int
    causal: bool
    dtype: str

    @property
    def mask(self) -> str:
        """``full`` or ``causal``."""
        return "causal" if self.causal else "full"

    @property
    def shape(self) -> str:
        """Batch, heads and sequence length, as tables write them."""
        return f"{self.b}·{self.h}·{self.s}"

    @property
    def flops(self) -> float:
        """Floating-point operations that have to be done: four for each visible pair and element; a mask leaves half."""
        pairs = self.s * (self.s + 1) // 2 if self.causal else self.s * self.s
        return 4.0 * self.b * self.h * self.d * pairs

    @property
    def long(self) -> bool:
        """Whether this is a single long sequence."""
        return self.b == 1


def table() -> list[Row]:
    """Prefill: head dimensions 64, 128 and 256, as many tokens in every row, full and causal, fp16, and bf16 at one length."""
    return [
        Row(d=d, b=b, h=HEADS[d], s=s, causal=causal, dtype=dtype)
        for d in HEADS
        for s, b in BATCHES.items()
        for dtype in ("fp16", "bf16")[: 2 if s == BOTH_TYPES_AT else 1]
        for causal in (False, True)
    ]


def long_context() -> list[Row]:
    """One sequence, from the length at which the table ends to eight times that."""
    return [
        Row(d=d, b=1, h=LONG_HEADS, s=s, causal=causal, dtype="fp16") for d in (64, 128) for causal in (False, True) for s in LONG
    ]


def parse(text: str) -> Row:
    """A row from ``B,H,S,D,MASK,DTYPE``; ValueError with a sentence when it is none."""
    parts = text.split(",")
    try:
        b, h, s, d = (int(part) for part in parts[:4])
        mask, dtype = parts[4:]
    except ValueError:
        raise ValueError(f"{text}: a row is B,H,S,D,MASK,DTYPE, as in 16,16,2048,64,causal,fp16") from None
    if mask not in {"full", "causal"} or dtype not in {"fp16", "bf16"} or min(b, h, s, d) < 1:
        raise ValueError(f"{text}: the mask is full or causal, the type fp16 or bf16, and the numbers are above 0")
    return Row(d=d, b=b, h=h, s=s, causal=mask == "causal", dtype=dtype)
