"""The statistics of verdicts, each with its source. Pure functions over numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

MIN_VALUES_TO_SPLIT = 4
MIN_GAP_TO_WIDTH = 3.0
MIN_RELATIVE_GAP = 0.005


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean of at least one value, summed without rounding error (``math.fsum``: Shewchuk 1997)."""
    return math.fsum(values) / len(values)


def sample_std(values: Sequence[float]) -> float:
    """Standard deviation of at least two values with Bessel's correction, n - 1.

    Two passes, so that close values far from zero keep their digits: Chan, Golub, LeVeque, "Algorithms for computing the
    sample variance: analysis and recommendations", The American Statistician 37(3), 1983.
    """
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def relative_std(values: Sequence[float]) -> float:
    """Coefficient of variation in %, of at least two values with a mean above zero (ValueError otherwise).

    Each value is one fresh process: launches inside a process share their state and are no independent repetitions
    (Georges, Buytaert, Eeckhout, "Statistically rigorous Java performance evaluation", OOPSLA 2007; Kalibera, Jones,
    "Rigorous benchmarking in reasonable time", ISMM 2013).
    """
    if len(values) < 2:  # noqa: PLR2004 - one value has no spread
        raise ValueError("one value has no spread")
    try:
        centre, spread = mean(values), sample_std(values)
    except OverflowError:
        raise ValueError("the values are too large to be measurements") from None
    if not centre > 0:
        raise ValueError("a spread relative to a mean that is not above zero says nothing")
    return 100.0 * spread / centre


def split_at_gap(
    values: Sequence[float], *, min_gap: float = MIN_RELATIVE_GAP
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """The slow and the fast group when the values plainly fall into two, else None.

    The values are parted at their widest gap (single linkage: Sneath 1957). Plainly: at least two values on each side, a
    gap 3 times as wide as either group and more than ``min_gap`` (a share) of the mean.
    """
    ordered = sorted(values)
    if len(ordered) < MIN_VALUES_TO_SPLIT:
        return None
    cut = max(range(1, len(ordered)), key=lambda index: ordered[index] - ordered[index - 1])
    low, high = tuple(ordered[:cut]), tuple(ordered[cut:])
    gap = high[0] - low[-1]
    widest = max(low[-1] - low[0], high[-1] - high[0])
    plain = min(len(low), len(high)) > 1 and gap > MIN_GAP_TO_WIDTH * widest and gap > min_gap * abs(mean(ordered))
    return (high, low) if plain else None
