"""Times candidates against each other on a GPU: successive halving for each head dimension and mask, in one process."""

from __future__ import annotations

import functools
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flashcore
import torch
from peerbench import rows, timing
from peerbench.rows import Row

from flashcore_ci.worker.driver import Driver
from tuner import halving

TOLERANCE = 4e-3  # between candidates, which round alike but for the order of sums
FEWEST_ROUNDS, MOST_ROUNDS = 6, 120


def label(row: Row) -> str:
    """A row's name in samples and reports."""
    return f"{row.shape} {row.mask} {row.dtype}"


def rows_of(head_dim: int, mask: str) -> list[Row]:
    """The rows of the table that a tile of this head dimension and mask serves, fp16."""
    return [row for row in rows.table() if row.d == head_dim and row.mask == mask and row.dtype == "fp16"]


def runs_of(row: Row, libraries: Mapping[str, Path]) -> dict[str, Any]:
    """A call of each library on the same tensors."""
    q, k, v = (torch.randn((row.b, row.s, row.h, row.d), device="cuda", dtype=torch.float16) for _ in range(3))
    out = torch.empty_like(q)

    def run(library: Path) -> Any:
        flashcore.load(library)
        return flashcore.attention(q, k, v, causal=row.causal, out=out)

    return {name: functools.partial(run, path) for name, path in libraries.items()}


def preflight(libraries: Mapping[str, Path], head_dim: int, trying: Path) -> dict[str, str]:
    """Why candidates may not race: each runs once on a few shapes, with its name in ``trying``, in case it never comes back."""
    refused: dict[str, str] = {}
    for causal in (False, True):
        for length in (2048, 300):
            row = Row(d=head_dim, b=2, h=8, s=length, causal=causal, dtype="fp16")
            runs, expected = runs_of(row, libraries), None
            for name, run in runs.items():
                if name in refused:
                    continue
                trying.write_text(name, encoding="utf-8")
                try:
                    output = run().clone()
                    torch.cuda.synchronize()
                except (RuntimeError, ValueError) as error:
                    refused[name] = str(error).splitlines()[0][:160]
                    continue
                expected = output if expected is None else expected
                worst = float((output.float() - expected.float()).abs().max())
                if not worst <= TOLERANCE:
                    refused[name] = f"differs from the configuration in use by {worst:.1e} ({label(row)})"
    trying.unlink(missing_ok=True)
    return refused


def race(
    libraries: Mapping[str, Path], hand: str, group: tuple[int, str], seconds: float, rng: random.Random
) -> list[dict[str, Any]]:
    """All rungs of one head dimension and mask. Each record: the rung, and by row and candidate the median megacycles and ms."""
    head_dim, mask = group
    by_label = {label(row): row for row in rows_of(head_dim, mask)}
    driver, left = Driver(), list(libraries)
    records = []
    for number, rung in enumerate(halving.rungs(len(left), list(by_label), seconds)):
        began = time.monotonic()
        cycles = {
            row: _timed(by_label[row], {name: libraries[name] for name in left}, driver, rung.seconds, rng) for row in rung.rows
        }
        megacycles = {row: {name: values["megacycles"] for name, values in taken.items()} for row, taken in cycles.items()}
        records.append({"head_dim": head_dim, "mask": mask, "rung": number, "hand": hand, "cycles": cycles})
        following = halving.survivors(megacycles, max(halving.FINALISTS, -(-len(left) // 2)), always=[hand])
        took = time.monotonic() - began
        sys.stderr.write(
            f"D={head_dim} {mask} rung {number}: {len(left)} candidates, {took:.1f} s, best {', '.join(following[:3])}\n"
        )
        left = following
    return records


def _timed(
    row: Row, libraries: Mapping[str, Path], driver: Driver, seconds: float, rng: random.Random
) -> dict[str, dict[str, float]]:
    protocol = timing.Protocol(settle=seconds / 3, measure=2 * seconds / 3, layout="bshd", rounds=(FEWEST_ROUNDS, MOST_ROUNDS))
    series = timing.measure(runs_of(row, libraries), driver, protocol, rng)
    torch.cuda.empty_cache()
    return {
        name: {"megacycles": round(one.megacycles, 6), "ms": round(one.time, 6), "rounds": len(one.ms)}
        for name, one in series.items()
    }
