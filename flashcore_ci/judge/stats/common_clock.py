"""Cycles at a common clock, because a power cap lets processes run at different ones.

Part of a kernel's time is that of memory, which has a clock of its own. So log(cycles) rises with log(clock) by a slope, which is 0
if only cycles count, and 1 if only time does. Least squares within the groups find it (analysis of covariance, Fisher 1932). As it
is at most 1, no process that takes longer at a higher clock is explained by it. It must be clear: with a t of ``CLEAR`` or more.

A slope costs a degree of freedom, so deviations from a group's mean are widened by sqrt(df / (df - 1)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flashcore_ci.judge.stats.descriptive import mean
from flashcore_ci.judge.stats.distributions import t_quantile

MIN_DF = 3
CLEAR = 0.05
FARTHEST = 1.0
"""The largest ``leverage``: clocks that differ far more between the groups than within them say too little about the slope."""

Group = tuple[Sequence[float], Sequence[float]]
"""Cycles and times of processes of the same code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonClock:
    """The cycles of each group. ``leverage``: what the slope's ``error`` adds to the variance of the last mean less the first."""

    cycles: tuple[tuple[float, ...], ...]
    slope: float = 0.0
    error: float = 0.0
    leverage: float = 0.0


def at_common_clock(*groups: Group, chance: float = CLEAR) -> CommonClock:
    """Return the cycles as at the mean clock of all, or as they are if no slope is clear or a value is impossible.

    ``chance``: that a slope is found where there is none.
    """
    unchanged = CommonClock(cycles=tuple(tuple(cycles) for cycles, _ in groups))
    df = sum(len(cycles) - 1 for cycles, _ in groups)
    if df < MIN_DF or not all(len(cycles) == len(ms) and all(map(_is_possible, (*cycles, *ms))) for cycles, ms in groups):
        return unchanged
    logs = [[math.log(count) for count in cycles] for cycles, _ in groups]
    clocks = [[math.log(count / ms) for count, ms in zip(*group, strict=True)] for group in groups]
    squares, products = _products(clocks, clocks), _products(clocks, logs)
    slope = min(1.0, max(0.0, products / squares)) if squares > 0.0 else 0.0
    centre = mean([mean(own) for own in clocks])
    levels = [[y - slope * (x - centre) for y, x in zip(*pair, strict=True)] for pair in zip(logs, clocks, strict=True)]
    variance = _products(levels, levels) / (df - 1)
    error = math.sqrt(variance / squares if squares > 0.0 else math.inf)
    if not slope > t_quantile(chance, df - 1) * error:
        return unchanged
    leverage = (mean(clocks[-1]) - mean(clocks[0])) ** 2 / squares
    if leverage > FARTHEST:
        return unchanged
    widened = math.sqrt(df / (df - 1))
    cycles = tuple(tuple(math.exp(mean(own) + widened * (y - mean(own))) for y in own) for own in levels)
    return CommonClock(cycles=cycles, slope=slope, error=error, leverage=leverage)


def blend(cycles: Sequence[float], ms: Sequence[float], slope: float) -> tuple[float, ...]:
    """Return cycles as at one clock, up to a factor: log(cycles) - slope log(cycles / ms). ``slope`` is that of a recording."""
    return tuple(math.exp((1.0 - slope) * math.log(c) + slope * math.log(t)) for c, t in zip(cycles, ms, strict=True))


def _is_possible(value: float) -> bool:
    return 1e-99 < value < 1e99  # noqa: PLR2004 - a quotient of two is finite, too


def _products(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> float:
    """Sum the products of deviations from the means of the groups."""
    pairs = zip(first, second, strict=True)
    return math.fsum((x - mean(xs)) * (y - mean(ys)) for xs, ys in pairs for x, y in zip(xs, ys, strict=True))
