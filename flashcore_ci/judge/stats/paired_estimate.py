"""Estimate a slowdown from paired log ratios, moderated by the recorded noise.

One round runs base and head next to each other in fresh processes, so drift slower than a round cancels. Few rounds estimate a
variance badly, so the recorded noise adds ``d0`` degrees of freedom:

    s2 = (d0 s0^2 + d s^2) / (d0 + d),    (mean - true) / sqrt(s2 / n)  ~  t with d0 + d degrees of freedom

Source: G. K. Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray experiments",
Stat. Appl. Genet. Mol. Biol. 3(1), 2004, sections 3 to 6. ``d0`` measures how constant the recorded noise was, not how long the
recording is. An F test drops the prior if today's rounds scatter more. That only widens intervals.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from flashcore_ci.judge.stats.common_clock import CommonClock, at_common_clock, blend
from flashcore_ci.judge.stats.descriptive import mean, sample_std
from flashcore_ci.judge.stats.distributions import f_quantile, t_quantile
from flashcore_ci.model.metrics import Scale
from flashcore_ci.model.noise import Noise, Series

NOISIER_ALPHA = 0.05
CHUNK_SIZE = 8
"""Processes per chunk. A chunk takes about as long as a comparison, so its scatter is that of one occasion."""
MAX_PRIOR_DF = 24.0
"""The most that a recording counts for, however constant it looked, because a recording is finite."""
SURE = 0.001
"""The chance that a recording gives a slope where there is none. All comparisons use the same one, so its error repeats."""

Variance = tuple[int, float]
"""A sample variance, after its degrees of freedom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Recorded noise: the variance of a round's log ratio, and d0. ``slope``: of log(cycles) over log(clock), or 0."""

    variance: float
    df: float
    slope: float = 0.0
    slope_error: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The mean log ratio. ``scatter_ratio``: today's standard deviation over the recorded one.

    ``clock_error``: the part of the standard error that more rounds do not make smaller.
    """

    rounds: int
    mean: float
    standard_error: float
    df: float
    scatter_ratio: float | None = None
    moderated: bool = False
    clock_error: float = 0.0

    def lower_bound(self, alpha: float) -> float:
        """One-sided lower confidence bound of the log ratio."""
        return self.mean - t_quantile(alpha, self.df) * self.standard_error

    def widened(self, error: float) -> Estimate:
        """Return it with the standard error of the clock's slope, too."""
        return replace(self, standard_error=math.hypot(self.standard_error, error), clock_error=error)

    @property
    def scatter(self) -> float:
        """The standard deviation of a round."""
        return math.sqrt(max(0.0, self.standard_error**2 - self.clock_error**2) * self.rounds)

    def upper_bound(self, alpha: float) -> float:
        """One-sided upper confidence bound of the log ratio."""
        return self.mean + t_quantile(alpha, self.df) * self.standard_error


def estimate(ratios: Sequence[float], prior: Prior | None) -> Estimate:
    """Estimate the mean of at least two log ratios. ValueError if all are equal."""
    count = len(ratios)
    return moderated_estimate(mean(ratios), sample_std(ratios) ** 2, count - 1, 1.0 / count, rounds=count, prior=prior)


def moderated_estimate(centre: float, variance: float, df: float, weight: float, *, rounds: int, prior: Prior | None) -> Estimate:
    """Moderate the variance of one value. ValueError if it is zero."""
    if not variance > 0:
        raise ValueError("all values are equal to the last digit, so they are not measurements")
    scatter_ratio, moderated = None, False
    if prior is not None:
        scatter_ratio = math.sqrt(variance / prior.variance)
        moderated = variance <= prior.variance * f_quantile(NOISIER_ALPHA, df, prior.df)
        if moderated:
            variance = (prior.df * prior.variance + df * variance) / (prior.df + df)
            df += prior.df
    error = math.sqrt(variance * weight)
    return Estimate(rounds=rounds, mean=centre, standard_error=error, df=df, scatter_ratio=scatter_ratio, moderated=moderated)


@cache
def priors(noise: Noise, scale: str) -> dict[str, Prior]:
    """Compute every workload's prior. A round has two processes, so twice the variance. Cycles are those at a common clock."""
    groups = {one.workload: (one.same.megacycles, one.same.ms) if scale == Scale.CYCLES else () for one in noise.workloads}
    clocks = {name: at_common_clock(group, chance=SURE) if group else CommonClock(cycles=()) for name, group in groups.items()}
    values = {one.workload: _values(one.same, scale, clocks[one.workload].slope) for one in noise.workloads}
    variances = {name: chunk_variances(each) for name, each in values.items()}
    df = min(MAX_PRIOR_DF, estimate_prior_df(tuple(tuple(chunks) for chunks in variances.values() if len(chunks) > 1)))
    noisy = {workload: chunks for workload, chunks in variances.items() if chunks and _pooled(chunks) > 0}
    return {
        name: Prior(
            variance=2.0 * _pooled(each) * _spent(each, clocks[name].slope),
            df=min(df, sum(d for d, _ in each)),
            slope=clocks[name].slope,
            slope_error=clocks[name].error,
        )
        for name, each in noisy.items()
    }


def _spent(variances: Sequence[Variance], slope: float) -> float:
    """Return the factor of a variance whose values had a slope taken from them, which costs a degree of freedom."""
    df = sum(d for d, _ in variances)
    return df / (df - 1) if slope and df > 1 else 1.0


def _values(series: Series, scale: str, slope: float) -> Sequence[float]:
    return blend(series.megacycles, series.ms, slope) if slope else getattr(series, scale)


def chunk_variances(samples: Sequence[float]) -> list[Variance]:
    """Compute the variance of logs in each chunk of processes."""
    values = [math.log(value) for value in samples]
    count = max(1, len(values) // CHUNK_SIZE)
    edges = [*range(0, count * CHUNK_SIZE, CHUNK_SIZE), len(values)]
    chunks = [values[start:end] for start, end in itertools.pairwise(edges)]
    return [(len(chunk) - 1, sample_std(chunk) ** 2) for chunk in chunks if len(chunk) > 1]


def estimate_prior_df(workloads: tuple[tuple[Variance, ...], ...]) -> float:
    """Estimate Smyth's d0: log variances vary by trigamma(d/2) + trigamma(d0/2)."""
    excess, count = 0.0, 0
    for chunks in workloads:
        if any(not variance > 0 for _, variance in chunks):
            continue
        logs = [math.log(variance) for _, variance in chunks]
        chance = math.fsum(trigamma(d / 2) for d, _ in chunks) / len(chunks)
        excess += (len(logs) - 1) * (sample_std(logs) ** 2 - chance)
        count += len(logs) - 1
    if not count or excess / count <= 0:
        return MAX_PRIOR_DF
    low, high = 1e-3, MAX_PRIOR_DF  # trigamma(d0/2) falls with d0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if trigamma(middle / 2) > excess / count else (low, middle)
    return high


def trigamma(x: float) -> float:
    """Second derivative of log gamma: recurrence and asymptotic series (NIST DLMF 5.15.5, 5.15.8)."""
    total = 0.0
    while x < 8.0:  # noqa: PLR2004 - from here the series holds to ten digits
        total += 1.0 / (x * x)
        x += 1.0
    y = 1.0 / (x * x)
    return total + 1.0 / x + y / 2 + y / x * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y / 30)))


def _pooled(variances: Sequence[Variance]) -> float:
    return math.fsum(d * variance for d, variance in variances) / sum(d for d, _ in variances)
