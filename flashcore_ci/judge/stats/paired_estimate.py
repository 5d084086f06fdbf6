"""How much slower, and how surely: paired log ratios, their mean, and a variance that leans on the calibrated noise.

A round gives one ratio: the log of head's median over base's, each in a fresh process of its own beside the other, so that
whatever drifts more slowly than a round divides out. Few rounds estimate a variance badly, and at the tiny errors that a suite
of many rows needs, Student's t pays for that dearly (12 rounds, 1e-5: 7.1 standard errors instead of 4.3). Therefore the
variance is moderated: the recorded noise of this workload counts as ``df`` further degrees of freedom,

    s2 = (d0 s0^2 + d s^2) / (d0 + d),    (mean - true) / sqrt(s2 / n)  ~  t with d0 + d degrees of freedom

(G. K. Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray experiments",
Stat. Appl. Genet. Mol. Biol. 3(1), 2004, sections 3 to 5). ``d0`` is not how much was recorded but how constant the recorded noise
was: it is estimated as in Smyth's section 6, so that noise which changes from hour to hour, or has heavy tails, counts for little. And
where today's rounds scatter plainly more than the recording (F test at 5 %), the recording is not of today's machine: the
rounds stand alone. That guard only ever widens an interval.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from flashcore_ci.judge.stats.descriptive import mean, sample_std
from flashcore_ci.judge.stats.distributions import f_quantile, t_quantile
from flashcore_ci.model.noise import Noise, Series

NOISIER_ALPHA = 0.05
CHUNK_SIZE = 8
"""Processes whose scatter counts as that of one occasion: about as long as a comparison takes."""
MAX_PRIOR_DF = 24.0
"""The recording never counts for more than this, however constant it looked: it is finite itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """The recorded noise of one workload: variance of a round's log ratio, and the degrees of freedom that it is worth."""

    variance: float
    df: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The mean log ratio with its standard error; ``today``: today's scatter over the recorded one (None: nothing recorded)."""

    rounds: int
    mean: float
    standard_error: float
    df: float
    scatter_ratio: float | None = None
    moderated: bool = False

    def lower_bound(self, alpha: float) -> float:
        """The true log ratio is below this with at most this probability."""
        return self.mean - t_quantile(alpha, self.df) * self.standard_error

    def upper_bound(self, alpha: float) -> float:
        """The true log ratio is above this with at most this probability."""
        return self.mean + t_quantile(alpha, self.df) * self.standard_error


def estimate(ratios: Sequence[float], prior: Prior | None) -> Estimate:
    """The estimate from the log ratios of at least two rounds. ValueError when nothing scatters."""
    count = len(ratios)
    return moderated_estimate(mean(ratios), sample_std(ratios) ** 2, count - 1, 1.0 / count, rounds=count, prior=prior)


def moderated_estimate(centre: float, variance: float, df: float, weight: float, *, rounds: int, prior: Prior | None) -> Estimate:
    """The estimate ``centre``, whose own variance is ``weight`` times that of one value, moderated by ``prior``.

    ValueError when nothing scatters: no machine repeats itself to the last digit.
    """
    if not variance > 0:
        raise ValueError("every value is the same to the last digit: that is no measurement")
    scatter_ratio, moderated = None, False
    if prior is not None:
        scatter_ratio = math.sqrt(variance / prior.variance)
        moderated = variance <= prior.variance * f_quantile(NOISIER_ALPHA, df, prior.df)
        if moderated:
            variance = (prior.df * prior.variance + df * variance) / (prior.df + df)
            df += prior.df
    standard_error = math.sqrt(variance * weight)
    return Estimate(
        rounds=rounds, mean=centre, standard_error=standard_error, df=df, scatter_ratio=scatter_ratio, moderated=moderated
    )


@cache
def priors(noise: Noise, scale: str) -> dict[str, Prior]:
    """The prior of every recorded workload in this scale (``ms`` or ``megacycles``).

    A round is the difference of two processes, hence the factor 2. Each chunk of processes that followed each other gives a
    variance of its own; how much these differ, over all workloads, beyond what chance explains gives the degrees of freedom.
    """
    chunks = {recorded.workload: chunk_variances(recorded.same, scale) for recorded in noise.workloads}
    df = min(MAX_PRIOR_DF, estimate_prior_df(tuple(tuple(found) for found in chunks.values() if len(found) > 1)))
    return {
        name: Prior(variance=2.0 * _pooled(found), df=min(df, sum(d for d, _ in found)))
        for name, found in chunks.items()
        if found and _pooled(found) > 0
    }


def chunk_variances(series: Series, scale: str) -> list[tuple[int, float]]:
    """(degrees of freedom, variance of the logs) of each chunk of consecutive processes; what is left over joins the last one."""
    values = [math.log(value) for value in getattr(series, scale)]
    count = max(1, len(values) // CHUNK_SIZE)
    edges = [*range(0, count * CHUNK_SIZE, CHUNK_SIZE), len(values)]
    parts = [values[start:end] for start, end in itertools.pairwise(edges)]
    return [(len(part) - 1, sample_std(part) ** 2) for part in parts if len(part) > 1]


def estimate_prior_df(workloads: tuple[tuple[tuple[int, float], ...], ...]) -> float:
    """Smyth's d0: log variances scatter by trigamma(d/2) from chance alone, and by trigamma(d0/2) because they differ."""
    excess, count = 0.0, 0
    for found in workloads:
        if any(not variance > 0 for _, variance in found):
            continue
        logs = [math.log(variance) for _, variance in found]
        chance = math.fsum(trigamma(d / 2) for d, _ in found) / len(found)
        excess += (len(logs) - 1) * (sample_std(logs) ** 2 - chance)
        count += len(logs) - 1
    if not count or excess / count <= 0:
        return MAX_PRIOR_DF
    low, high = 1e-3, MAX_PRIOR_DF  # in d0, of which trigamma(d0/2) is a falling function
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if trigamma(middle / 2) > excess / count else (low, middle)
    return high


def trigamma(x: float) -> float:
    """The second derivative of log gamma: recurrence to x >= 8, then its asymptotic series (NIST DLMF 5.15.5, 5.15.8)."""
    total = 0.0
    while x < 8.0:  # noqa: PLR2004 - where the series below is good to ten digits
        total += 1.0 / (x * x)
        x += 1.0
    y = 1.0 / (x * x)
    return total + 1.0 / x + y / 2 + y / x * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y / 30)))


def _pooled(found: Sequence[tuple[int, float]]) -> float:
    return math.fsum(d * variance for d, variance in found) / sum(d for d, _ in found)
