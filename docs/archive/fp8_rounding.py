"""Say which rounding makes error (b) of attention in E4M3, and what an optimal one would leave. See fp8-rounding.md.

Random numbers are those that PyTorch draws on an H200, so the ratios are those of the kernels. Two cores take two minutes per case.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

E4M3_MAX, TILE = 448.0, 128
BATCH, HEADS, KV_HEADS, QUERIES, CHANNEL = 2, 32, 16, 128, 5
MULTIPROCESSORS, BLOCK = 132, 256  # of an H200, and threads of PyTorch's kernel
SIGNS = (0x9E3779B9, 0x7F4A7C15, 0xBF58476D, 0x94D049BB, 0xD6E8FEB8, 0x6A09E667, 0xBB67AE85, 0x3C6EF372)
WORD = np.uint64(0xFFFFFFFF)

Array = np.ndarray[Any, Any]


def philox(counter: int, threads: int, seed: int) -> list[Array]:
    """Return four words per thread: Philox 4x32 with ten rounds."""
    c = [
        np.full(threads, counter, np.uint64),
        np.zeros(threads, np.uint64),
        np.arange(threads, dtype=np.uint64),
        np.zeros(threads, np.uint64),
    ]
    keys = [seed, 0]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [b >> np.uint64(32) ^ c[1] ^ np.uint64(keys[0]), b & WORD, a >> np.uint64(32) ^ c[3] ^ np.uint64(keys[1]), a & WORD]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


class Generator:
    """``torch.randn`` on a GPU."""

    def __init__(self, seed: int) -> None:
        self.seed, self.counter = seed, 0

    def draw(self, *shape: int) -> Array:
        """Return normal numbers."""
        count = math.prod(shape)
        threads = BLOCK * min(MULTIPROCESSORS * 8, -(-count // BLOCK))
        out: list[Array] = []
        for _ in range((count - 1) // (threads * 4) + 1):
            words = [(w.astype(np.float64) + 0.5) * 2.0**-32 for w in philox(self.counter, threads, self.seed)]
            self.counter += 1
            for first, second in ((0, 1), (2, 3)):
                size, angle = np.sqrt(-2.0 * np.log(words[first])), 2.0 * np.pi * words[second]
                out += [size * np.sin(angle), size * np.cos(angle)]
        return np.concatenate(out)[:count].reshape(shape).astype(np.float32)


def to_bf16(x: Array) -> Array:
    """Round to bfloat16."""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def draw(d: int, keys: int, size: float, seed: int) -> list[Array]:
    """Draw queries, keys and values (batch, heads, rows, d) with an outlier channel of queries and keys."""
    g = Generator(seed)
    tensors = [g.draw(BATCH, rows, heads, d) for rows, heads in ((QUERIES, HEADS), (keys, KV_HEADS), (keys, KV_HEADS))]
    for x in tensors[:2]:
        x[..., CHANNEL] *= np.float32(size)
    return [np.ascontiguousarray(to_bf16(x).transpose(0, 2, 1, 3)) for x in tensors]


def to_e4m3(x: Array) -> Array:
    """Round to the nearest E4M3 in float32, ties to even."""
    x = np.clip(x, -E4M3_MAX, E4M3_MAX)
    unit = np.ldexp(np.float32(1.0), np.maximum(np.frexp(x)[1] - 4, -9))
    return np.rint(x / unit) * unit


def head_scale(x: Array) -> Array:
    """Return FA3's scale: one per KV head."""
    group = x.shape[1] // KV_HEADS
    largest = np.abs(x).reshape(BATCH, KV_HEADS, -1).max(axis=2).repeat(group, axis=1)
    return (largest / np.float32(E4M3_MAX))[:, :, None, None]


def block_scale(x: Array, rows: int) -> Array:
    """Return one scale for each ``rows`` rows."""
    parts = np.abs(x).reshape(*x.shape[:2], -1, rows * x.shape[3]).max(axis=3) / np.float32(E4M3_MAX)
    return parts.repeat(rows, axis=2)[..., None]


def least_squares_scale(x: Array, rows: int) -> Array:
    """Return the scale of each block with the least squared error, of eight."""
    best, least = None, None
    for step in range(8):
        scale = block_scale(x, rows) * np.float32(1.0 + step / 8)
        off = (
            ((to_e4m3(x / scale) * scale - x) ** 2)
            .reshape(*x.shape[:2], -1, rows * x.shape[3])
            .sum(axis=3)
            .repeat(rows, axis=2)[..., None]
        )
        best, least = (scale, off) if best is None else (np.where(off < least, scale, best), np.minimum(off, least))
    return best


def nearest(x: Array, scale: Array) -> Array:
    """Round, and multiply by the scale again."""
    return to_e4m3(x / scale) * scale


def keep_length(x: Array, scale: Array) -> Array:
    """Round as quantise/row_length.cuh: of two candidates the one that changes a row less along itself."""
    y = x / scale
    first = to_e4m3(y)
    lost = (y * (y - first)).sum(axis=3, keepdims=True)
    second = to_e4m3(y * (1 + lost / (y * y).sum(axis=3, keepdims=True)))
    better = np.abs((y * (y - second)).sum(axis=3, keepdims=True)) < np.abs(lost)
    return np.where(better, second, first) * scale


def without(x: Array, rounded: Array, direction: Array) -> Array:
    """Take the error along unit vectors out of ``rounded``. No format has that."""
    return rounded + direction * ((x - rounded) * direction).sum(axis=-1, keepdims=True)


def attend(q: Array, k: Array, v: Array, *, exact_p: bool = False) -> Array:
    """Compute attention. Probabilities are rounded relative to the largest of the tiles so far, from the last tile on."""
    out, group = np.empty(q.shape, np.float64), q.shape[1] // k.shape[1]
    for batch, head in np.ndindex(*q.shape[:2]):
        s = q[batch, head] @ k[batch, head // group].T / np.asarray(math.sqrt(q.shape[3]), q.dtype)
        if exact_p:
            p = np.exp(s - s.max(axis=1, keepdims=True))
            rounded = p
        else:
            tiles = np.maximum.accumulate(s.reshape(len(s), -1, TILE).max(axis=2)[:, ::-1], axis=1)[:, ::-1]
            used = tiles.repeat(TILE, axis=1)
            p, weight = np.exp(s - used), np.exp(used - tiles[:, :1])
            rounded, p = to_e4m3(p * 256) / 256 * weight, p * weight
        out[batch, head] = rounded @ v[batch, head // group] / p.sum(axis=1, keepdims=True)
    return out


def list_schemes(q: Array, k: Array, v: Array) -> Iterator[tuple[str, Array]]:
    """Yield outputs of the schemes by name, of FA3's first."""
    d = q.shape[3]
    matrix = np.ones((1, 1), np.float32)
    while len(matrix) < d:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    signs = np.array([1.0 - 2.0 * (SIGNS[c // 32] >> c % 32 & 1) for c in range(d)], np.float32)
    matrix *= signs[:, None] / np.float32(math.sqrt(d))
    yield "FA3", attend(*(nearest(x, head_scale(x)) for x in (q, k, v)))
    qh, kh = q @ matrix, k @ matrix
    scales = block_scale(qh, 64), block_scale(kh, TILE), block_scale(v, TILE)
    q8, k8, v8 = (nearest(x, scale) for x, scale in zip((qh, kh, v), scales, strict=True))
    yield "scales of blocks, Hadamard", attend(q8, k8, v8)
    yield "the same with exact Q", attend(qh, k8, v8)
    yield "exact K", attend(q8, kh, v8)
    yield "exact Q and K", attend(qh, kh, v8)
    yield "exact V", attend(q8, k8, v)
    yield "exact P", attend(q8, k8, v8, exact_p=True)
    yield "K exact along the outlier channel", attend(q8, without(kh, k8, matrix[CHANNEL]), v8)
    yield "K exact along itself", attend(q8, without(kh, k8, kh / np.linalg.norm(kh, axis=3, keepdims=True)), v8)
    yield "keys keep their length", attend(q8, keep_length(kh, scales[1]), v8)
    yield "keys and queries do", attend(keep_length(qh, scales[0]), keep_length(kh, scales[1]), v8)
    least = least_squares_scale(kh, TILE)
    yield "scales of K with the least squared error", attend(q8, nearest(kh, least), v8)
    yield "the same, and keys keep their length", attend(q8, keep_length(kh, least), v8)
    yield "scales of 16 keys", attend(q8, nearest(kh, block_scale(kh, 16)), v8)
    centred = (k - k.mean(axis=2, keepdims=True)) @ matrix
    yield "K without its mean", attend(q8, nearest(centred, block_scale(centred, TILE)), v8)
    vh = v @ matrix
    yield (
        "keys keep their length, Hadamard of V",
        attend(q8, keep_length(kh, scales[1]), nearest(vh, block_scale(vh, TILE))) @ matrix.T,
    )


def get_error(out: Array, exact: Array) -> float:
    """Return the relative root mean square error."""
    return float(np.sqrt(((out - exact) ** 2).sum() / (exact**2).sum()))


def main() -> int:
    """Print error (b) over FA3's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", nargs="+", default=["64,8192,16,7"], help="head dimension, keys, size of the outlier, seed")
    for case in parser.parse_args().case:
        d, keys, size, seed = map(int, case.split(","))
        tensors = draw(d, keys, size, seed)
        exact = attend(*(x.astype(np.float64) for x in tensors), exact_p=True)
        sys.stdout.write(
            f"\n### D={d}, {keys} keys, outlier {size}, seed {seed}\n\n| scheme | error (b) over FA3's |\n| --- | --- |\n"
        )
        other = 0.0
        for name, out in list_schemes(*tensors):
            error = get_error(out, exact)
            other = other or error
            sys.stdout.write(f"| {name} | {error / other:.3f} ({error:.4f}) |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
