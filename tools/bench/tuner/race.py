"""Time candidates against each other on a GPU, by successive halving for each head dimension and mask."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peerbench import rows, timing
from peerbench.contenders import libraries_on
from peerbench.rows import Row

from flashcore_ci.worker.driver import Driver
from tuner import choice

TOLERANCE = 4e-3  # between candidates, which differ only by the order of sums
ROUNDS = (6, 120)


def label(row: Row) -> str:
    """Name a row in samples and reports."""
    return f"{row.shape} {row.mask} {row.dtype}"


def preflight(libraries: Mapping[str, Path], head_dim: int, marker: Path) -> dict[str, str]:
    """Run each candidate on a few shapes, and return why some may not race. ``marker`` names the one that runs."""
    rejections: dict[str, str] = {}
    for causal, length in ((False, 2048), (False, 300), (True, 2048), (True, 300)):
        row = Row(d=head_dim, b=2, h=8, s=length, causal=causal, dtype="fp16")
        expected = None
        for name, run in libraries_on(row, libraries)[1].items():
            if name in rejections:
                continue
            marker.write_text(name, encoding="utf-8")
            try:
                output = run().clone()
                torch.cuda.synchronize()
            except (RuntimeError, ValueError) as error:
                rejections[name] = str(error).splitlines()[0][:160]
                continue
            expected = output if expected is None else expected
            worst = float((output.float() - expected.float()).abs().max())
            if not worst <= TOLERANCE:
                rejections[name] = f"differs from the configuration in use by {worst:.1e} ({label(row)})"
    marker.unlink(missing_ok=True)
    return rejections


def race(libraries: Mapping[str, Path], hand: str, group: tuple[int, str], seconds: float) -> list[dict[str, Any]]:
    """Run all rungs of one head dimension and mask on the fp16 rows, and return a record for each."""
    head_dim, mask = group
    table = {label(row): row for row in rows.prefill() if (row.d, row.mask, row.dtype) == (head_dim, mask, "fp16")}
    driver, rng, names = Driver(), random.Random(1), list(libraries)  # noqa: S311 - an order, not a secret
    protocol = timing.Protocol(settle=seconds / 3, measure=2 * seconds / 3, rounds=ROUNDS)
    records = []
    for number, (_, few) in enumerate(choice.rungs(len(names), list(table))):
        began = time.monotonic()
        cycles: dict[str, dict[str, Any]] = {}
        for row in few:
            runs = libraries_on(table[row], {name: libraries[name] for name in names})[1]
            series = timing.measure(runs, driver, protocol, rng)
            torch.cuda.empty_cache()
            cycles[row] = {
                name: {"megacycles": round(samples.megacycles, 6), "ms": round(samples.time, 6), "rounds": len(samples.ms)}
                for name, samples in series.items()
            }
        records.append({"head_dim": head_dim, "mask": mask, "rung": number, "hand": hand, "cycles": cycles})
        best = choice.survivors(choice.megacycles(records[-1]), max(choice.FINALISTS, -(-len(names) // 2)), always=[hand])
        took = f"{len(names)} candidates, {time.monotonic() - began:.1f} s"
        sys.stderr.write(f"D={head_dim} {mask} rung {number}: {took}, best {', '.join(best[:3])}\n")
        names = best
    return records
