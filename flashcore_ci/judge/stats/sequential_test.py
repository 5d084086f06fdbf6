"""Compare base and head at three interim looks, with bounded error rates.

``decide`` is the whole rule, for the collector at each look and for the verdict:

- SLOWER: the lower confidence bound is above zero at ``ALPHA_NULL``, and above the non-inferiority margin at ``ALPHA_MARGIN``.
  Both alphas cover all rows, looks and scales together (Bonferroni).
- SAME (non-inferior, ICH E10): the upper confidence bound is at most the margin, at ``BETA`` per row.

The first look never gives SLOWER. If a machine has two speeds at random, all bases are fast and all heads slow with probability
4^-n: 1/1024 after 5 rounds, 1/65536 after 8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from flashcore_ci.judge.stats.common_clock import blend
from flashcore_ci.judge.stats.descriptive import mean, split_at_gap
from flashcore_ci.judge.stats.distributions import t_quantile, t_tail
from flashcore_ci.judge.stats.paired_estimate import Estimate, Prior, estimate
from flashcore_ci.model.codes import Code

INTERIM_LOOKS = (5, 8, 12)
"""The numbers of rounds after which the test looks at the data."""
ALPHA_SPENDING = {5: 0.0, 8: 0.2, 12: 0.8}
"""The share of alpha that each look spends."""
BETA_SPENDING = {5: 0.1, 8: 0.2, 12: 0.7}
"""The share of beta that each look spends."""
ALPHA_NULL = 0.001
"""The largest probability that a suite in which nothing changed has any row SLOWER."""
ALPHA_MARGIN = 0.01
"""The largest probability that a suite in which no slowdown exceeds its margin has any row SLOWER."""
BETA = 0.05
"""The largest probability that a row whose slowdown exceeds its margin is SAME."""
TIME_SHARE = 0.1
"""The share of alpha for time where cycles are the primary endpoint."""
TIME_MARGIN = math.log(1.02)
"""A kernel with equal cycles may take this much longer (log ratio) before it is SLOWER_AT_LOWER_CLOCK."""
FINAL_CODES = frozenset({Code.FASTER, Code.SAME, Code.SLOWER, Code.SLOWER_AT_LOWER_CLOCK})
"""The codes that end the test before its last look."""
MAX_UNDECIDED_RATE = 0.05
"""A margin is resolvable on a machine if unchanged code stays UNDECIDED at most this often."""
TARGET_POWER = 0.95
"""The power that defines the minimum detectable slowdown."""
MAX_LOG_RATIO = 700.0
LEAST, MOST = 1e-99, 1e99
"""Of a measurement. Squares of sums are finite then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Base and head in one scale (ms or Mcycle), paired by index."""

    base: tuple[float, ...]
    head: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.base) != len(self.head):
            raise ValueError("every round has a base and a head")
        if not all(LEAST < value < MOST for value in (*self.base, *self.head)):
            raise ValueError(f"a measurement is above {LEAST:g} and below {MOST:g}")

    @property
    def ratios(self) -> tuple[float, ...]:
        """Log of head over base: 0.01 is about 1 % slower."""
        return tuple(math.log(head) - math.log(base) for base, head in zip(self.base, self.head, strict=True))

    def at_common_clock(self, time: Rounds, slope: float) -> Rounds:
        """Return these cycles as at one clock. ``time``: the same rounds."""
        return Rounds(base=blend(self.base, time.base, slope), head=blend(self.head, time.head, slope))


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBudget:
    """Error rates of one look: false SLOWER at zero, at the margin, and false SAME."""

    alpha_null: float
    alpha_margin: float
    beta: float

    @classmethod
    def of(cls, *, rows: int, share: float, rounds: int = INTERIM_LOOKS[-1]) -> ErrorBudget:
        """Compute the budget of a scale with this ``share`` of alpha."""
        look = max((look for look in INTERIM_LOOKS if look <= rounds), default=INTERIM_LOOKS[0])
        share *= ALPHA_SPENDING[look] / rows
        return cls(alpha_null=ALPHA_NULL * share, alpha_margin=ALPHA_MARGIN * share, beta=BETA * BETA_SPENDING[look])

    def exceeds(self, estimate: Estimate, margin: float) -> bool:
        """Whether the slowdown is significant and exceeds the margin."""
        if not self.alpha_margin > 0:
            return False
        return estimate.lower_bound(self.alpha_margin) > margin and estimate.lower_bound(self.alpha_null) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The result of a look. ``time``: None if it is the primary scale. ``slope``: by which cycles are those at a common clock."""

    code: Code
    primary: Estimate
    time: Estimate | None
    budget: ErrorBudget
    time_budget: ErrorBudget
    modes: tuple[str, ...] = ()
    resolvable_margin: float | None = None
    slope: float = 0.0


def decide(
    primary: Rounds, time: Rounds | None, *, margin: float, rows: int, noise: tuple[Prior | None, Prior | None]
) -> Decision:
    """Apply the rule with a log ratio ``margin``. ``rows`` comparisons share alpha.

    ``time``: None if it is the primary scale. ``noise`` has the priors of both scales. ValueError if the values are equal.
    Cycles are compared at a common clock, by the recorded slope: a power cap lets processes run at different ones.
    """
    slope, error = 0.0, 0.0
    if time is not None and noise[0] is not None and noise[0].slope:
        estimate(primary.ratios, None)  # equal cycles are not measured ones, whatever the time is
        slope, error = noise[0].slope, noise[0].slope_error * abs(mean(primary.ratios) - mean(time.ratios))
        primary = primary.at_common_clock(time, slope)
    share = primary_share(with_time=time is not None)
    budget = ErrorBudget.of(rows=rows, share=share, rounds=len(primary.base))
    time_budget = ErrorBudget.of(rows=rows, share=TIME_SHARE, rounds=len(primary.base))
    primary_estimate = estimate(primary.ratios, noise[0]).widened(error)
    time_estimate = estimate(time.ratios, noise[1]) if time else None
    modes = bimodality(primary, margin)
    resolvable = resolvable_margin(noise[0], ErrorBudget.of(rows=rows, share=share)) if noise[0] else None
    code = _primary_code(primary_estimate, margin, budget)
    if time_estimate is not None:
        code = _with_time(code, time_estimate, time_budget)
    if code in {Code.SAME, Code.FASTER, Code.UNDECIDED} and resolvable is not None and resolvable > margin:
        code = Code.BELOW_RESOLUTION
    if modes and not (code is Code.SLOWER and min(primary.head) > max(primary.base)):
        code = Code.BIMODAL
    return Decision(
        code=code,
        primary=primary_estimate,
        time=time_estimate,
        budget=budget,
        time_budget=time_budget,
        modes=modes,
        resolvable_margin=resolvable,
        slope=slope,
    )


def primary_share(*, with_time: bool) -> float:
    """Return the primary scale's share of alpha."""
    return 1.0 - TIME_SHARE if with_time else 1.0


def _primary_code(primary: Estimate, margin: float, budget: ErrorBudget) -> Code:
    if budget.exceeds(primary, margin):
        return Code.SLOWER
    upper = primary.upper_bound(budget.beta)
    if primary.rounds < INTERIM_LOOKS[0] or not upper <= margin:
        return Code.UNDECIDED
    return Code.FASTER if upper < -margin else Code.SAME


def _with_time(code: Code, time: Estimate, budget: ErrorBudget) -> Code:
    if code is not Code.SLOWER and budget.exceeds(time, TIME_MARGIN):
        return Code.SLOWER_AT_LOWER_CLOCK
    is_last = time.rounds >= INTERIM_LOOKS[-1]
    if code in {Code.SAME, Code.FASTER} and not is_last and not time.upper_bound(budget.beta) <= TIME_MARGIN:
        return Code.UNDECIDED  # cycles are equal, but a later look may still show a longer time
    return code


def bimodality(rounds: Rounds, margin: float) -> tuple[str, ...]:
    """Describe each side with two groups further apart than the margin."""
    modes = []
    for side, values in (("base", rounds.base), ("head", rounds.head)):
        groups = split_at_gap(values, min_gap=margin)
        if groups is not None:
            slow, fast = groups
            gap = 100.0 * (min(slow) / max(fast) - 1.0)
            modes.append(f"{side}: {len(fast)} fast and {len(slow)} slow processes, {gap:.2g} % apart")
    return tuple(modes)


def resolvable_margin(prior: Prior, budget: ErrorBudget) -> float:
    """Smallest margin (log ratio) that leaves unchanged code UNDECIDED at most 5 %."""
    return _sum_of_quantiles(prior, budget.beta, MAX_UNDECIDED_RATE)


def minimum_detectable_slowdown(prior: Prior, margin: float, budget: ErrorBudget) -> float:
    """Smallest slowdown (log ratio) that is SLOWER with 95 % power."""
    threshold = max(margin + _sum_of_quantiles(prior, budget.alpha_margin), _sum_of_quantiles(prior, budget.alpha_null))
    return threshold + _sum_of_quantiles(prior, 1.0 - TARGET_POWER)


def power_at(prior: Prior, slowdown: float, margin: float, budget: ErrorBudget) -> float:
    """Probability that a slowdown (log ratio) is SLOWER at the last look."""
    df, standard_error = _last_look(prior)
    above_margin, above_zero = (t_quantile(alpha, df) * standard_error for alpha in (budget.alpha_margin, budget.alpha_null))
    return t_tail((max(margin + above_margin, above_zero) - slowdown) / standard_error, df)


def _sum_of_quantiles(prior: Prior, *tails: float) -> float:
    df, standard_error = _last_look(prior)
    return standard_error * math.fsum(t_quantile(tail, df) for tail in tails)


def _last_look(prior: Prior) -> tuple[float, float]:
    """Return df and standard error at the last look."""
    rounds = INTERIM_LOOKS[-1]
    return prior.df + rounds - 1, math.sqrt(prior.variance / rounds)


def percent(log_ratio: float) -> float:
    """Convert a log ratio to per cent, always finite."""
    return 100.0 * math.expm1(min(log_ratio, MAX_LOG_RATIO))
