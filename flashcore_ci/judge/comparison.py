"""Base against head: FASTER, SAME, SLOWER or UNDECIDED, with errors that are bounded over the whole suite.

``decide`` is the whole rule; the collector asks it after each look whether to go on, and the verdict is what it says last.

A compute-bound workload is compared in cycles, a memory-bound one in time. SLOWER when the slow-down exceeds the margin at an
error of ``SUITE_ERROR`` over all rows of the plan together: split evenly over rows, over the looks that may convict, and over the two
scales where both are judged (Bonferroni: no assumption on how rows, looks and scales depend on each other). SAME when
the slow-down is at most the margin, at an error of ``MISS`` a row, split over all looks.

The first look may acquit but never convict. A machine with two speeds that tosses a coin for each process would give n rounds in which every
base is fast and every head slow with probability 4^-n: 1/1024 at 5 rounds, too often; 1/65536 at 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flashcore_ci.judge.distributions import t_quantile
from flashcore_ci.judge.ratios import Estimate, Prior, estimate
from flashcore_ci.judge.statistics import two_groups
from flashcore_ci.model.codes import Code

LOOKS = (5, 8, 12)
"""After how many rounds one looks; never in between."""
CONVICTING = LOOKS[1:]
SUITE_ERROR = 0.001
MISS = 0.05
TIME_MARGIN = math.log(1.02)
"""A kernel with the same cycles may take this much longer (log ratio) before its lower clock is held against it."""
FINAL = frozenset({Code.FASTER, Code.SAME, Code.SLOWER, Code.SLOWER_AT_LOWER_CLOCK})
"""What another look would not change."""
UNDECIDED_SHARE = 0.02
"""A margin holds on a machine when unchanged kernels are UNDECIDED at most this often after the last look."""
DETECTED_SHARE = 0.95


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
        return tuple(math.log(head / base) for base, head in zip(self.base, self.head, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """How often one test may be wrong: ``slower`` convicting what is not slower than the margin, ``same`` acquitting what is."""

    slower: float
    same: float

    @classmethod
    def of(cls, *, rows: int, scales: int) -> Errors:
        """The share of one test in a plan of ``rows`` comparisons, each in so many scales."""
        return cls(slower=SUITE_ERROR / (rows * scales * len(CONVICTING)), same=MISS / len(LOOKS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the rounds say: ``code``, the estimate in the scale that is judged, and that in time where both are."""

    code: Code
    primary: Estimate
    time: Estimate | None
    modes: tuple[str, ...] = ()
    resolution: float | None = None


def decide(
    primary: Rounds, time: Rounds | None, *, margin: float, errors: Errors, noise: tuple[Prior | None, Prior | None]
) -> Decision:
    """The rule. ``margin`` is a log ratio; ``time`` is None where time is the primary scale; ``noise`` is of both scales.

    ValueError for rounds that cannot have been measured, or that are fewer than two.
    """
    first = estimate(primary.ratios, noise[0])
    second = estimate(time.ratios, noise[1]) if time else None
    modes = two_speeds(primary, margin)
    holds_at = resolution(noise[0], errors) if noise[0] else None
    code = _code(first, second, margin, errors)
    if code in {Code.SAME, Code.FASTER, Code.UNDECIDED} and holds_at is not None and holds_at > margin:
        code = Code.BELOW_RESOLUTION
    if modes and not (code is Code.SLOWER and min(primary.head) > max(primary.base)):
        code = Code.BIMODAL
    return Decision(code=code, primary=first, time=second, modes=modes, resolution=holds_at)


def _code(primary: Estimate, time: Estimate | None, margin: float, errors: Errors) -> Code:
    may_convict = primary.rounds >= CONVICTING[0]
    if may_convict and primary.lower(errors.slower) > margin:
        return Code.SLOWER
    if may_convict and time is not None and time.lower(errors.slower) > TIME_MARGIN:
        return Code.SLOWER_AT_LOWER_CLOCK
    if primary.rounds < LOOKS[0] or not primary.upper(errors.same) <= margin:
        return Code.UNDECIDED
    if time is not None and primary.rounds < LOOKS[-1] and not time.upper(errors.same) <= TIME_MARGIN:
        return Code.UNDECIDED  # as many cycles, but its time may yet turn out longer: another look
    return Code.FASTER if primary.upper(errors.slower) < -margin else Code.SAME


def two_speeds(rounds: Rounds, margin: float) -> tuple[str, ...]:
    """Each side whose own processes plainly fall into two groups further apart than the margin: how many are in which."""
    found = []
    for side, values in (("base", rounds.base), ("head", rounds.head)):
        groups = two_groups(values, apart=margin)
        if groups is not None:
            slow, fast = groups
            gap = 100.0 * (min(slow) / max(fast) - 1.0)
            found.append(f"{side}: {len(fast)} fast and {len(slow)} slow processes, {gap:.2g} % apart")
    return tuple(found)


def resolution(noise: Prior, errors: Errors) -> float:
    """The smallest margin (log ratio) that holds: an unchanged kernel is UNDECIDED in 2 % of all comparisons at most."""
    return _quantiles(noise, errors.same, UNDECIDED_SHARE)


def detectable(noise: Prior, margin: float, errors: Errors) -> float:
    """The smallest slow-down (log ratio) that is called SLOWER in 95 % of all comparisons, by the recorded noise."""
    return margin + _quantiles(noise, errors.slower, 1.0 - DETECTED_SHARE)


def _quantiles(noise: Prior, *tails: float) -> float:
    """The sum of these quantiles of the mean's error after the last look."""
    last = LOOKS[-1]
    freedom = noise.freedom + last - 1
    return math.sqrt(noise.variance / last) * math.fsum(t_quantile(tail, freedom) for tail in tails)


def percent(log_ratio: float) -> float:
    """A log ratio as a slow-down in per cent."""
    return 100.0 * math.expm1(log_ratio)


def spread(values: Sequence[float]) -> str:
    """The range of some values, for a fact."""
    return f"{min(values):.6g} to {max(values):.6g}"
