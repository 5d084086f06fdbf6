"""Successive halving: many candidates a little, few candidates well. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FINALISTS = 4

Cycles = Mapping[str, Mapping[str, float]]
"""Megacycles by row, then by candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One round of the tournament: how many candidates enter it, which rows are timed, for how many seconds each."""

    entrants: int
    rows: tuple[str, ...]
    seconds: float


def rungs(entrants: int, rows: Sequence[str], seconds: float) -> list[Rung]:
    """Halve down to FINALISTS, who run every row.

    A rung before that times three rows spread over the table. Every rung gives a row as many seconds, so half as many
    candidates are each timed twice as often.
    """
    if entrants < 1 or not rows:
        raise ValueError("a tournament needs a candidate and a row")
    out, left = [], entrants
    few = tuple(dict.fromkeys((rows[0], rows[len(rows) // 2], rows[-1])))
    while left > FINALISTS:
        out.append(Rung(entrants=left, rows=few, seconds=seconds))
        left = max(FINALISTS, math.ceil(left / 2))
    return [*out, Rung(entrants=left, rows=tuple(rows), seconds=seconds)]


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of at least one number above 0."""
    return math.exp(sum(map(math.log, values)) / len(values))


def scores(cycles: Cycles) -> dict[str, float]:
    """How many times the cycles of each row's best a candidate took, as a geometric mean over rows.

    Infinite when a row is missing or no measurement.
    """
    names = {name for row in cycles.values() for name in row}
    valid = {row: {name: one for name, one in taken.items() if math.isfinite(one) and one > 0} for row, taken in cycles.items()}
    out = {}
    for name in names:
        ratios = [taken[name] / min(taken.values()) for taken in valid.values() if name in taken]
        out[name] = geometric_mean(ratios) if len(ratios) == len(cycles) else math.inf
    return out


def survivors(cycles: Cycles, keep: int, always: Sequence[str] = ()) -> list[str]:
    """The ``keep`` best, best first, and whoever stays in any case, so that the last is compared on every row."""
    ranked = sorted(scores(cycles).items(), key=lambda item: (item[1], item[0]))
    kept = [name for name, score in ranked[:keep] if math.isfinite(score)]
    return kept + [name for name in always if name not in kept]
