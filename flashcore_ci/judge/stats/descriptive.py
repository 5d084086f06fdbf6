"""Mean, spread and a test for two groups, each with its source."""

from __future__ import annotations

import math
from collections.abc import Sequence

MIN_VALUES_TO_SPLIT = 4
MIN_GAP_TO_WIDTH = 3.0
MIN_RELATIVE_GAP = 0.005


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean (``math.fsum``: Shewchuk 1997)."""
    return math.fsum(values) / len(values)


def sample_std(values: Sequence[float]) -> float:
    """Standard deviation of two or more values (n - 1), in two passes (Chan 1983)."""
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def relative_std(values: Sequence[float]) -> float:
    """Coefficient of variation in %, over fresh processes.

    Launches in one process are not independent (Georges et al., OOPSLA 2007. Kalibera, Jones, ISMM 2013).
    ValueError for fewer than two values or a mean not above zero.
    """
    if len(values) < 2:  # noqa: PLR2004 - a spread needs two values
        raise ValueError("one value has no spread")
    try:
        centre, std = mean(values), sample_std(values)
    except OverflowError:
        raise ValueError("the values are too large to be measurements") from None
    if not centre > 0:
        raise ValueError("the mean is not above zero, so a relative spread has no meaning")
    return 100.0 * std / centre


def split_at_gap(
    values: Sequence[float], *, min_gap: float = MIN_RELATIVE_GAP
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Split the values into a slow and a fast group at their widest gap, or return None.

    Single linkage (Sneath 1957). Groups need two values, and a gap 3 times their width and more than ``min_gap`` of the mean.
    """
    ordered = sorted(values)
    if len(ordered) < MIN_VALUES_TO_SPLIT:
        return None
    cut = max(range(1, len(ordered)), key=lambda index: ordered[index] - ordered[index - 1])
    low, high = tuple(ordered[:cut]), tuple(ordered[cut:])
    gap = high[0] - low[-1]
    width = max(low[-1] - low[0], high[-1] - high[0])
    is_bimodal = min(len(low), len(high)) > 1 and gap > MIN_GAP_TO_WIDTH * width and gap > min_gap * abs(mean(ordered))
    return (high, low) if is_bimodal else None
