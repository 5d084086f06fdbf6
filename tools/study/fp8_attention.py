"""Emulate attention in E4M3 on the CPU, and print the error of every design choice. See docs/fp8.md.

FP8 WGMMA keeps about 14 bits while it adds: the products of one instruction and the accumulator are cut to multiples of one unit. One
core takes four minutes, or with ``--quick`` half a minute.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import time
from collections.abc import Iterator

import numpy as np

E4M3_MAX = 448.0
D, ROWS, COLUMNS, TILE, MMA_K = 128, 8, 32, 128, 32
LOG2E = math.log2(math.e)
NEVER = 1 << 30
MEASURED = {1024: 0.016, 8192: 0.149, 32768: 0.399, 131072: 0.672}
"""FA3's error with constant V on an H200, by keys."""

Array = np.ndarray


def round_e4m3(x: Array) -> Array:
    """Round to the nearest E4M3, ties to even. Too large values become 448."""
    x = np.clip(x, -E4M3_MAX, E4M3_MAX)
    exponent = np.frexp(x)[1] - 1
    unit = np.ldexp(1.0, np.maximum(exponent, -6) - 3)
    return np.rint(x / unit) * unit


def quantise(x: Array, block: int | None) -> Array:
    """Round rows with one scale, or one for each ``block`` rows, and multiply by the scale again."""
    out = np.empty_like(x)
    for first in range(0, len(x), block or len(x)):
        rows = slice(first, first + (block or len(x)))
        scale = max(float(np.abs(x[rows]).max()), 1e-30) / E4M3_MAX
        out[rows] = round_e4m3(x[rows] / scale) * scale
    return out


def make_hadamard(rng: np.random.Generator) -> Array:
    """Make an orthogonal matrix of equal magnitudes with random signs."""
    h = np.ones((1, 1))
    while len(h) < D:
        h = np.block([[h, h], [h, -h]])
    return h * rng.choice([-1.0, 1.0], D)[:, None] / math.sqrt(D)


@dataclasses.dataclass(frozen=True)
class Scheme:
    """One design. ``threshold``: how far, in powers of two, a score may exceed the subtracted maximum."""

    name: str
    offset: float = 7.0
    threshold: float = 1.75
    flush: int = 4  # tiles
    bits: int | None = 13  # after the leading one. None: exact sums
    exact_p: bool = False


FA3 = Scheme("FA3: one level", offset=8.0, threshold=0.0, flush=NEVER)
VLLM = Scheme("vLLM: every 4 tiles", offset=8.0, threshold=0.0, flush=4)
OURS = Scheme("ours: every 4 tiles")


def add_products(total: Array, p: Array, v: Array, bits: int | None) -> Array:
    """Add the products of one instruction, (rows, 32) x (32, columns)."""
    if bits is None:
        return total + p @ v
    products = p[:, :, None] * v[None]
    largest = np.maximum(np.abs(products).max(axis=1), np.abs(total))
    unit = np.ldexp(1.0, np.frexp(largest)[1] - 1 - bits)
    return (np.trunc(total / unit) + np.trunc(products / unit[:, None, :]).sum(axis=1)) * unit


def attend(scores: Array, v: Array, scheme: Scheme) -> tuple[Array, Array, float]:
    """Return the output, the log-sum-exp (both in powers of two) and the share of saturated probabilities."""
    rows, keys = scores.shape
    used = np.full(rows, -np.inf)
    sums, total, part = np.zeros(rows), np.zeros((rows, v.shape[1])), np.zeros((rows, v.shape[1]))
    saturated = 0
    for tile, last in enumerate(range(keys, 0, -TILE)):
        s = scores[:, max(0, last - TILE) : last]
        new = s.max(axis=1)
        moved = new > used + scheme.threshold
        factor = np.where(moved, np.exp2(used - np.where(moved, new, 0.0)), 1.0)
        used = np.where(moved, new, used)
        sums, total, part = sums * factor, total * factor[:, None], part * factor[:, None]
        p = np.exp2(s - used[:, None] + scheme.offset)
        sums += p.sum(axis=1)
        saturated += int((p > E4M3_MAX).sum())
        rounded = p if scheme.exact_p else round_e4m3(p)
        values = v[max(0, last - TILE) : last]
        for first in range(0, s.shape[1], MMA_K):
            part = add_products(part, rounded[:, first : first + MMA_K], values[first : first + MMA_K], scheme.bits)
        if (tile + 1) % scheme.flush == 0:
            total, part = total + part, np.zeros_like(part)
    return (total + part) / sums[:, None], np.log2(sums) + used - scheme.offset, saturated / scores.size


def get_exact(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
    """Return output and log-sum-exp in powers of two, in float64."""
    s = q @ k.T * (LOG2E / math.sqrt(D))
    top = s.max(axis=1, keepdims=True)
    p = np.exp2(s - top)
    return p @ v / p.sum(axis=1, keepdims=True), (np.log2(p.sum(axis=1, keepdims=True)) + top)[:, 0]


def get_error(out: Array, exact: Array) -> float:
    """Return the relative root mean square error."""
    return float(np.sqrt(((out - exact) ** 2).sum() / (exact**2).sum()))


def draw(
    rng: np.random.Generator, keys: int, *, width: float = 1.0, v: str = "normal", outlier: float = 1.0, rows: int = ROWS
) -> tuple[Array, ...]:
    """Draw queries, keys and values."""
    q, k = rng.standard_normal((rows, D)) * width, rng.standard_normal((keys, D))
    values = rng.standard_normal((keys, COLUMNS))
    if v == "constant":
        values = 1.0 + 0.05 * values
    q[:, 0] *= outlier
    k[:, 0] *= outlier
    return q, k, values


def measure(q: Array, k: Array, v: Array, scheme: Scheme, block: int | None = None) -> tuple[float, float, float]:
    """Return error (a), against the rounded inputs, the error of the log-sum-exp, and the saturated share."""
    q8, k8, v8 = quantise(q, block), quantise(k, block), quantise(v, None)
    exact, lse = get_exact(q8, k8, v8)
    scale = max(float(np.abs(v).max()), 1e-30) / E4M3_MAX
    out, own, saturated = attend(q8 @ k8.T * (LOG2E / math.sqrt(D)), v8 / scale, scheme)
    return get_error(out * scale, exact), float(np.abs(own - lse).max() / LOG2E), saturated


def show(title: str, head: list[str], rows: Iterator[list[object]]) -> None:
    """Print one table."""
    print(f"\n### {title}\n\n| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        print("| " + " | ".join(f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row) + " |", flush=True)


def by_length(lengths: list[int], v: str, schemes: list[Scheme]) -> Iterator[list[object]]:
    """Vary the number of keys."""
    inputs = [draw(np.random.default_rng(keys), keys, v=v) for keys in lengths]
    for scheme in schemes:
        yield [scheme.name, *(measure(*data, scheme)[0] for data in inputs)]


def by_bits(lengths: list[int]) -> Iterator[list[object]]:
    """Vary the bits that sums keep."""
    yield ["measured on an H200", *(MEASURED[keys] for keys in lengths)]
    schemes = [dataclasses.replace(FA3, name=f"{bits} bits after the leading one", bits=bits) for bits in (12, 13, 14)]
    yield from by_length(lengths, "constant", schemes)


def by_width(widths: list[float], keys: int) -> Iterator[list[object]]:
    """Vary the standard deviation of the logits."""
    for offset, threshold in ((8.0, 0.0), (8.0, 0.75), (7.0, 1.75), (6.0, 2.75), (4.0, 4.75), (0.75, 8.0), (0.0, 0.0)):
        scheme = Scheme("", offset=offset, threshold=threshold)
        data = [draw(np.random.default_rng(5), keys, width=width) for width in widths]
        yield [f"{offset:g} + {threshold:g}", *(measure(*d, scheme)[0] for d in data)]
    data = [draw(np.random.default_rng(5), keys, width=width) for width in widths]
    yield ["exact probabilities", *(measure(*d, Scheme("", exact_p=True))[0] for d in data)]


def by_outlier(keys: int) -> Iterator[list[object]]:
    """Error (b), against the original inputs, of 16 heads with 128 queries each. Scales of blocks are those of keys and values."""
    exact_sums = Scheme("", offset=8.0, threshold=0.0, flush=1, bits=None)
    for name, block, turn in (
        ("FA3: per head", None, 0),
        ("blocks", 128, 0),
        ("per head, Hadamard", None, 1),
        ("blocks, Hadamard", 128, 1),
    ):
        row: list[object] = [name]
        for outlier in (1.0, 8.0, 16.0, 32.0):
            outs = []
            for head in range(16):
                rng = np.random.default_rng(head)
                q, k, v = draw(rng, keys, outlier=outlier, rows=128)
                h = make_hadamard(rng) if turn else np.eye(D)
                q8, k8, v8 = quantise(q @ h, None), quantise(k @ h, block), quantise(v, block)
                outs.append((attend(q8 @ k8.T * (LOG2E / math.sqrt(D)), v8, exact_sums)[0], get_exact(q, k, v)[0]))
            row.append(get_error(*map(np.concatenate, zip(*outs, strict=True))))
        yield row


def by_rise(keys: int) -> Iterator[list[object]]:
    """Let scores rise from tile to tile: the largest step decides whether probabilities saturate."""
    for offset, threshold in ((8.0, 8.0), (0.75, 8.0), (7.0, 1.75), (8.0, 0.75)):
        row: list[object] = [f"{offset:g} + {threshold:g}"]
        for rise in (0.5, 7.9, 8.0, 8.9):
            rng = np.random.default_rng(3)
            noise, v = rng.random((ROWS, keys)), round_e4m3(rng.standard_normal((keys, COLUMNS)) * 64)
            scores = noise + np.arange(keys, 0, -1)[None] // TILE * rise
            p = np.exp2(scores - scores.max(axis=1, keepdims=True))
            out, _, saturated = attend(scores, v, Scheme("", offset=offset, threshold=threshold))
            row.append(f"{get_error(out, p @ v / p.sum(axis=1, keepdims=True)):.4f} ({saturated:.2%})")
        yield row


def main() -> int:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="to 8192 keys")
    quick = parser.parse_args().quick
    start = time.monotonic()
    lengths = [1024, 8192] if quick else [1024, 8192, 32768, 131072]
    columns = [f"{n // 1024}k" for n in lengths]
    show("How many bits FP8 WGMMA keeps: FA3's scheme, constant V", ["bits", *columns], by_bits(lengths))
    flushes = [dataclasses.replace(OURS, name=f"ours, every {n}", flush=n) for n in (1, 2, 4, 8, 16)]
    schemes = [FA3, VLLM, *flushes, Scheme("ours, exact sums", bits=None)]
    show("Error (a), constant V", ["scheme", *columns], by_length(lengths, "constant", schemes))
    show("Error (a), normal V", ["scheme", *columns], by_length(lengths, "normal", schemes))
    widths = [0.25, 1.0, 2.0, 4.0, 8.0]
    show("Error (a), 8k keys, by offset + threshold and width of logits", ["", *map(str, widths)], by_width(widths, 8192))
    show("Error (b), 2k keys, by scale and outlier in one channel of Q and K", ["scales", "1", "8", "16", "32"], by_outlier(2048))
    show("Error (a) and saturated share, by rise per tile", ["offset + threshold", "0.5", "7.9", "8.0", "8.9"], by_rise(2048))
    print(f"\n{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
