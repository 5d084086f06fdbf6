"""Base against head: FASTER, SAME, SLOWER or UNDECIDED, with errors that are bounded over the whole suite.

``decide`` is the whole rule; the collector asks it after each look whether to go on, and the verdict is what it says last.

A compute-bound workload is compared in cycles, a memory-bound one in time. SLOWER has to clear two bounds: the slow-down is above
zero at an error of ``ALPHA_NULL``, and above the margin at an error of ``ALPHA_MARGIN``, each over all rows, looks and scales of
the plan together. SAME when the slow-down is at most the margin, at an error of ``BETA`` a row. The errors are split by
Bonferroni: no assumption on how rows, looks and scales depend on each other. Looks get growing shares, so that rounds which were lost
can only lose power. Cycles get nine tenths and the time beside them one: time is the second question, and its margin is wide.

The first look may acquit but never exceeds. A machine with two speeds that tosses a coin for each process would give n rounds in which every
base is fast and every head slow with probability 4^-n: 1/1024 at 5 rounds, too often; 1/65536 at 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flashcore_ci.judge.stats.descriptive import split_at_gap
from flashcore_ci.judge.stats.distributions import t_quantile
from flashcore_ci.judge.stats.paired_estimate import Estimate, Prior, estimate
from flashcore_ci.model.codes import Code

INTERIM_LOOKS = (5, 8, 12)
"""After how many rounds one looks; never in between."""
ALPHA_SPENDING = {5: 0.0, 8: 0.2, 12: 0.8}
"""The share of each look in the errors of SLOWER."""
BETA_SPENDING = {5: 0.1, 8: 0.2, 12: 0.7}
"""The share of each look in the error of SAME."""
ALPHA_NULL = 0.001
"""How often, at most, a suite in which nothing changed has any row SLOWER."""
ALPHA_MARGIN = 0.01
"""How often, at most, a suite in which nothing is slower by more than its margin has any row SLOWER."""
TIME_SHARE = 0.1
"""The share of time in the errors of SLOWER where it is judged beside cycles."""
BETA = 0.05
TIME_MARGIN = math.log(1.02)
"""A kernel with the same cycles may take this much longer (log ratio) before its lower clock is held against it."""
FINAL_CODES = frozenset({Code.FASTER, Code.SAME, Code.SLOWER, Code.SLOWER_AT_LOWER_CLOCK})
"""What another look would not change."""
MAX_UNDECIDED_RATE = 0.05
"""A margin holds on a machine when unchanged code is UNDECIDED at most this often after the last look."""
TARGET_POWER = 0.95
MAX_LOG_RATIO = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Base and head in one scale (ms or Mcycle), paired by index: a round each. All values are finite and above zero."""

    base: tuple[float, ...]
    head: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what no two clocks could have given."""
        if len(self.base) != len(self.head):
            raise ValueError("every round has a base and a head")
        if not all(math.isfinite(value) and value > 0 for value in (*self.base, *self.head)):
            raise ValueError("a measurement is finite and above zero")

    @property
    def ratios(self) -> tuple[float, ...]:
        """Log of head over base, one a round: 0.01 is about one per cent slower."""
        return tuple(math.log(head) - math.log(base) for base, head in zip(self.base, self.head, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBudget:
    """How often one test may be wrong: ``unchanged``, ``within``: convicting what is no slower (at all, than the margin); ``same``: acquitting."""

    alpha_null: float
    alpha_margin: float
    beta: float

    @classmethod
    def of(cls, *, rows: int, share: float, rounds: int = INTERIM_LOOKS[-1]) -> ErrorBudget:
        """Those of one test after so many rounds, in a plan of ``rows`` comparisons; ``share`` is that of its scale."""
        look = max((look for look in INTERIM_LOOKS if look <= rounds), default=INTERIM_LOOKS[0])
        share *= ALPHA_SPENDING[look] / rows
        return cls(alpha_null=ALPHA_NULL * share, alpha_margin=ALPHA_MARGIN * share, beta=BETA * BETA_SPENDING[look])

    def exceeds(self, estimate: Estimate, margin: float) -> bool:
        """Whether the slow-down is above zero and above the margin, each at its own error."""
        return (
            self.alpha_margin > 0
            and estimate.lower_bound(self.alpha_margin) > margin
            and estimate.lower_bound(self.alpha_null) > 0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the rounds say: ``code``, the estimate in the scale that is judged, that in time where both are, each with its errors."""

    code: Code
    primary: Estimate
    time: Estimate | None
    budget: ErrorBudget
    time_budget: ErrorBudget
    modes: tuple[str, ...] = ()
    resolvable_margin: float | None = None


def decide(
    primary: Rounds,
    time: Rounds | None,
    *,
    margin: float,
    rows: int,
    noise: tuple[Prior | None, Prior | None],
) -> Decision:
    """The rule. ``margin`` is a log ratio; ``time`` is None where time is the primary scale; ``noise`` is of both scales.

    ``rows`` is how many comparisons share the errors. ValueError for rounds that cannot have been measured, or fewer than two.
    """
    share = primary_share(with_time=time is not None)
    budget = ErrorBudget.of(rows=rows, share=share, rounds=len(primary.base))
    time_budget = ErrorBudget.of(rows=rows, share=TIME_SHARE, rounds=len(primary.base))
    first = estimate(primary.ratios, noise[0])
    second = estimate(time.ratios, noise[1]) if time else None
    modes = bimodality(primary, margin)
    resolvable = resolvable_margin(noise[0], ErrorBudget.of(rows=rows, share=share)) if noise[0] else None
    code = _primary_code(first, margin, budget)
    if second is not None:
        code = _with_time(code, second, time_budget)
    if code in {Code.SAME, Code.FASTER, Code.UNDECIDED} and resolvable is not None and resolvable > margin:
        code = Code.BELOW_RESOLUTION
    if modes and not (code is Code.SLOWER and min(primary.head) > max(primary.base)):
        code = Code.BIMODAL
    return Decision(
        code=code, primary=first, time=second, budget=budget, time_budget=time_budget, modes=modes, resolvable_margin=resolvable
    )


def primary_share(*, with_time: bool) -> float:
    """The share of the scale that is judged first; ``with_time``: whether time is judged besides."""
    return 1.0 - TIME_SHARE if with_time else 1.0


def _primary_code(primary: Estimate, margin: float, budget: ErrorBudget) -> Code:
    if budget.exceeds(primary, margin):
        return Code.SLOWER
    if primary.rounds < INTERIM_LOOKS[0] or not primary.upper_bound(budget.beta) <= margin:
        return Code.UNDECIDED
    return Code.FASTER if primary.upper_bound(budget.beta) < -margin else Code.SAME


def _with_time(code: Code, time: Estimate, budget: ErrorBudget) -> Code:
    """What cycles said, once time was asked too."""
    if code is not Code.SLOWER and budget.exceeds(time, TIME_MARGIN):
        return Code.SLOWER_AT_LOWER_CLOCK
    if code in {Code.SAME, Code.FASTER} and time.rounds < INTERIM_LOOKS[-1] and not time.upper_bound(budget.beta) <= TIME_MARGIN:
        return Code.UNDECIDED  # as many cycles, but its time may yet turn out longer: another look
    return code


def bimodality(rounds: Rounds, margin: float) -> tuple[str, ...]:
    """Each side whose own processes plainly fall into two groups further apart than the margin: how many are in which."""
    found = []
    for side, values in (("base", rounds.base), ("head", rounds.head)):
        groups = split_at_gap(values, min_gap=margin)
        if groups is not None:
            slow, fast = groups
            gap = 100.0 * (min(slow) / max(fast) - 1.0)
            found.append(f"{side}: {len(fast)} fast and {len(slow)} slow processes, {gap:.2g} % apart")
    return tuple(found)


def resolvable_margin(noise: Prior, budget: ErrorBudget) -> float:
    """The smallest margin (log ratio) that holds: unchanged code is UNDECIDED in 5 % of all comparisons at most."""
    return _quantiles(noise, budget.beta, MAX_UNDECIDED_RATE)


def minimum_detectable_slowdown(noise: Prior, margin: float, budget: ErrorBudget) -> float:
    """The smallest slow-down (log ratio) that is called SLOWER in 95 % of all comparisons, by the recorded noise."""
    beyond = max(margin + _quantiles(noise, budget.alpha_margin), _quantiles(noise, budget.alpha_null))
    return beyond + _quantiles(noise, 1.0 - TARGET_POWER)


def _quantiles(noise: Prior, *tails: float) -> float:
    """The sum of these quantiles of the mean's error after the last look."""
    last = INTERIM_LOOKS[-1]
    df = noise.df + last - 1
    return math.sqrt(noise.variance / last) * math.fsum(t_quantile(tail, df) for tail in tails)


def percent(log_ratio: float) -> float:
    """A log ratio as a slow-down in per cent; finite whatever it is."""
    return 100.0 * math.expm1(min(log_ratio, MAX_LOG_RATIO))


def spread(values: Sequence[float]) -> str:
    """The range of some values, for a fact."""
    return f"{min(values):.6g} to {max(values):.6g}"
