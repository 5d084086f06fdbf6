"""Softmax over rows: a Triton kernel, its launch, and an autotuned one."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

LAUNCHES = 1
"""A planted slowdown raises it: each call then launches so often."""


@triton.jit
def softmax_rows(x, y, columns, BLOCK: tl.constexpr, LOOPS: tl.constexpr):  # noqa: N803 - constants
    """Each program makes one row. A planted slowdown raises LOOPS, and the result stays the same."""
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + column, mask=column < columns, other=-float("inf"))
    for _ in range(LOOPS):
        values = values - tl.max(values, axis=0)
    exponentials = tl.exp(values)
    tl.store(y + row * columns + column, exponentials / tl.sum(exponentials, axis=0), mask=column < columns)


@triton.autotune(configs=[triton.Config({"BLOCK": block}, num_warps=4) for block in (256, 1024, 4096)], key=["n"])
@triton.jit
def scale_tuned(x, y, n, BLOCK: tl.constexpr):  # noqa: N803 - constants
    """Multiply by two."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2.0 * tl.load(x + at, mask=at < n), mask=at < n)


def softmax(x: Any, y: Any) -> None:
    """Launch a program per row."""
    for _ in range(LAUNCHES):
        softmax_rows[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), LOOPS=1)


def scale(x: Any, y: Any) -> None:
    """Launch as the autotuner chose."""
    scale_tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
