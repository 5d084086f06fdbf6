"""How much the rounds and sittings of a series scatter, learned from the series itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import median

from flashcore_ci.judge.stats.distributions import chi2_quantile, f_quantile

MIN_SITTINGS = 8
"""Sittings before anything is decided: before, the scatter is not known."""
FIRST_CLIP = 4.0
"""How many times the median the variance of one of the first sittings may count."""
DISTURBED_ALPHA = 1e-3
EXCESS_ALPHA = 0.025
FEW, OFTEN = 3, 0.01
"""From how many disturbed sittings, and from which share of all, a series counts as disturbed."""
UNNOTICED = 1.2
"""By how much a disturbed round of 8 moves z without being noticed."""
MAX_DF = 2000
CLIP = 4.0
CLIPPED_MEAN = 0.9205
"""E(min(x, CLIP)) of chi-squared with one degree of freedom."""


class Scatter:
    """The variance of one round, and how much more sittings differ than that explains."""

    def __init__(self, first: Sequence[tuple[float, float]]) -> None:
        """Begin with the first sittings (variance of one round, df). They may be disturbed, so none counts for too much."""
        most = FIRST_CLIP * median(variance / median_of_chi2(df) for variance, df in first)
        self._df = math.fsum(df for _, df in first)
        self._total = math.fsum(min(variance, most) * df for variance, df in first)
        self._steps, self._squares = 0, 0.0
        self._sittings = self._disturbed = 0

    def add(self, variance: float, df: float) -> None:
        """Add a sitting that is not disturbed."""
        self._df, self._total = self._df + df, self._total + variance * df

    def add_step(self, before: tuple[float, int], now: tuple[float, int]) -> None:
        """Add the difference of two sittings (mean, rounds) that follow each other."""
        self._steps += 1
        self._squares += min(CLIP, (now[0] - before[0]) ** 2 / (self.variance * (1 / before[1] + 1 / now[1])))

    @property
    def variance(self) -> float:
        """Variance of one round."""
        return self._total / self._df

    @property
    def df(self) -> int:
        """Degrees of freedom of the variance, in few different values."""
        df = min(MAX_DF, int(self._df))
        return df if df < 50 else df - df % 25 if df < 500 else df - df % 250  # noqa: PLR2004 - coarse where it matters little

    @property
    def factor(self) -> float:
        """How much more sittings differ: 1 unless it is significant at 1 %."""
        found = self._squares / self._steps / CLIPPED_MEAN if self._steps else 1.0
        return found if self._steps and found > 1.0 + 2.33 * math.sqrt(3.0 / self._steps) else 1.0

    def is_disturbed(self, variance: float, df: float) -> bool:
        """Whether rounds of the next sitting scatter too much, and count it."""
        found = self.is_large(variance, df)
        self._sittings, self._disturbed = self._sittings + 1, self._disturbed + found
        return found

    def is_large(self, variance: float, df: float) -> bool:
        """Whether rounds scatter too much (F test)."""
        return variance > self.variance * largest_ratio(df, self.df)

    def allowance(self, squares: float, df: int) -> float:
        """Return by how much disturbed rounds of a level may have moved z, by its sum of squares and by how often they occur."""
        often = self._disturbed >= FEW and self._disturbed > OFTEN * self._sittings
        excess = math.sqrt(max(0.0, squares / self.variance - largest_sum(df)) / 3.0) if df > 0 else 0.0
        return excess + (UNNOTICED if often else 0.0)


@cache
def median_of_chi2(df: float) -> float:
    """Return the median of chi-squared over its degrees of freedom."""
    return chi2_quantile(0.5, df) / df


@cache
def largest_ratio(df: float, of_variance: float) -> float:
    """Return the ratio of variances that is exceeded with ``DISTURBED_ALPHA``."""
    return f_quantile(DISTURBED_ALPHA, df, max(4.0, of_variance))


@cache
def largest_sum(df: int) -> float:
    """Return the sum of squares, in variances, that is exceeded with ``EXCESS_ALPHA``."""
    return chi2_quantile(EXCESS_ALPHA, df)
