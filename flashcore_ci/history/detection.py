"""Find steps and creep in a series of log(head / anchor), with a stated rate of false alerts.

**Levels.** Consecutive sittings of equal code are one level, with the mean of its rounds.

**Test.** The newest level is compared with all levels since the last change. For w = 1, 2, 4, 8, 16 the mean of the newest w levels
(n rounds) has the distance

    z_w = (mean_w - mean_before) / sqrt(f s2 (1/n + 1/n_before) + link2)

from the mean of all levels before them (n_before rounds). w = 1 finds steps, the others find creep. ``s2`` is the variance of one round, pooled over all sittings. ``f`` is 1, or how much more sittings
differ than their rounds explain, if that is significant (von Neumann, Ann. Math. Stat. 12, 1941). ``link2`` is the variance of the
anchors that were replaced in between.

**Parent.** If each round times the parent too, and the level before is its, a step is also measured against the mean of both. Without a
change that is mean_before / 2, with the variance of 1.5 processes in place of 2:

    z_1 = (mean(log head - (log anchor + log parent) / 2) - mean_before / 2) / sqrt(f s2 (0.75/n + 0.25/n_before) + link2)

**Limit.** A change needs z_w > t(share_w rate), Student's quantile. ``rate`` is the largest expected number of false alerts per series
and commit. The shares add up to 1 (Boole's inequality).

**Re-measurement.** Within ``SUSPECT`` of the limit it is measured again, up to 8 rounds. It alerts if all rounds together exceed the limit
and each sitting points the same way.

**Disturbed processes.** If a sitting's rounds scatter too much (F test), the farthest is left out. If the others do so too, the sitting is
repeated. Two disturbed rounds of 8 with a sum of squares ``q`` move z by up to sqrt((q - q0) / 3), which is subtracted. If more than 1 % of
the sittings are disturbed, so is what one round moves unnoticed.

Sources: E. S. Page, Biometrika 41, 1954. M. Basseville, I. V. Nikiforov, "Detection of abrupt changes", 1993, chapter 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Protocol

from flashcore_ci.history.levels import SHARES, Level, without
from flashcore_ci.history.scatter import MIN_SITTINGS, Scatter
from flashcore_ci.judge.stats.distributions import t_quantile

WINDOWS = {(1, False): 0.7, (1, True): 0.1, (2, False): 0.05, (4, False): 0.05, (8, False): 0.05, (16, False): 0.05}
"""Levels of a window, whether the parent counts, and the share of the rate. That with the parent is small: head against
a mean is not symmetric, so skewed processes exceed a quantile more often."""
FALSE_ALERTS = 0.04
"""The largest expected number of false alerts of a whole suite in 1,000 commits that all change the code."""
ROUNDS = 8
"""Rounds that decide a level, or one less."""
FEWEST_ROUNDS = 3
"""Rounds of a re-measurement."""
SUSPECT = 2.0
"""A level this close to the limit (in z) is measured again."""
EACH_SITTING = 1.3
"""The z of every single sitting of an alert."""


class Sitting(Protocol):
    """A point of ``Track``. Without a standard error it was not timed."""

    @property
    def log_ratio(self) -> float: ...  # noqa: D102
    @property
    def standard_error(self) -> float | None: ...  # noqa: D102
    @property
    def df(self) -> float: ...  # noqa: D102
    @property
    def rounds(self) -> int: ...  # noqa: D102
    @property
    def code(self) -> str: ...  # noqa: D102
    @property
    def link_error(self) -> float: ...  # noqa: D102
    @property
    def parent(self) -> str: ...  # noqa: D102
    @property
    def step(self) -> float: ...  # noqa: D102
    @property
    def step_error(self) -> float: ...  # noqa: D102
    @property
    def far(self) -> float | None: ...  # noqa: D102
    @property
    def step_far(self) -> float | None: ...  # noqa: D102


class Kind(StrEnum):
    """What a sitting gave rise to."""

    MEASURE_AGAIN = "measure again"
    SLOWER = "slower"
    FASTER = "faster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A change, or a request for ``rounds`` more of the newest code. Indexes count sittings.

    The change is at ``first`` or, if ``last_good + 1 < first``, a little before. ``at`` is where it was found. ``change`` is its log ratio.
    """

    kind: Kind
    at: int
    first: int
    last_good: int
    change: float
    standard_error: float
    z: float
    limit: float
    window: int
    rounds: int = 0


View = tuple[int, bool]
Best = tuple[float, View, float, float, float]
"""What exceeds the limit by how much: excess, window, z, change and its standard error."""


class Detector:
    """The state of one series. ``rate``: false alerts per commit."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.levels: list[Level] = []
        self._sums: list[tuple[int, float]] = [(0, 0.0)]  # rounds and rounds x mean of the levels before each
        self._codes: set[str] = set()
        self._early: list[tuple[int, Sitting]] = []
        self._scatter: Scatter | None = None
        self._index = -1
        self._before: tuple[float, int] | None = None

    def add(self, sitting: Sitting) -> Finding | None:
        """Add the next sitting. Return a change, or a request to measure its code again."""
        self._index += 1
        if self._scatter is not None:
            return self._take(self._scatter, self._index, sitting)
        self._early.append((self._index, sitting))
        known = [_round_of(each) for _, each in self._early if _is_timed(each)]
        if len(known) == MIN_SITTINGS:
            self._scatter = Scatter(known)
            for index, each in self._early:
                self._take(self._scatter, index, each, early=True)
        return None

    def _take(self, scatter: Scatter, index: int, sitting: Sitting, *, early: bool = False) -> Finding | None:
        """Add a sitting to its level, unless it is disturbed, and decide."""
        level = self._level_of(index, sitting)
        if not _is_timed(sitting):
            return None
        (variance, df), mean, rounds, level.seen = _round_of(sitting), sitting.log_ratio, sitting.rounds, level.seen + 1
        disturbed = scatter.is_disturbed(variance, df)
        rest = without(sitting.far, mean, variance, rounds) if disturbed and not early else None
        if rest is not None:
            (mean, variance), rounds, df = rest, rounds - 1, df - 1.0
            disturbed = scatter.is_large(variance, df)
        if not disturbed:
            if not early:
                scatter.add(variance, df)
            level.add(mean, rounds, variance * df)
            if (step := self._step_of(scatter, sitting, one_less=rest is not None)) is not None:
                level.steps.append(((mean + step) / 2, rounds))
            if self._before is not None:
                scatter.add_step(self._before, (mean, rounds))
            self._before = mean, rounds
        if early or level.decided or level.code in self._codes:
            return None
        if disturbed and level.seen == 1:
            return self._request((0.0, (1, False), 0.0, 0.0, 0.0), ROUNDS)
        return self._decide(scatter, level) if level.rounds else None

    def _step_of(self, scatter: Scatter, sitting: Sitting, *, one_less: bool) -> float | None:
        """Return the step to a sound parent that is the level before. ``one_less``: a round was left out."""
        is_before = len(self.levels) > 1 and bool(sitting.parent) and self.levels[-2].code == sitting.parent
        error = sitting.step_error
        is_timed = is_before and error > 0 and math.isfinite(error) and math.isfinite(sitting.step)
        variance, rounds = error**2 * sitting.rounds, sitting.rounds
        if not is_timed or not scatter.is_large(variance, rounds - 1.0):
            return sitting.step if is_timed else None
        rest = without(sitting.step_far, sitting.step, variance, rounds) if one_less else None
        return rest[0] if rest and not scatter.is_large(rest[1], rounds - 2.0) else None

    def _level_of(self, index: int, sitting: Sitting) -> Level:
        if self.levels and sitting.code and self.levels[-1].code == sitting.code:
            self.levels[-1].last = index
        else:
            if self.levels:
                self._close(self.levels[-1])
            self.levels.append(Level(code=sitting.code, first=index, last=index, link=sitting.link_error**2))
        return self.levels[-1]

    def _close(self, level: Level) -> None:
        rounds, total = self._sums[-1]
        self._sums.append((rounds + level.rounds, total + level.rounds * level.mean))
        if level.code:
            self._codes.add(level.code)

    def _decide(self, scatter: Scatter, level: Level) -> Finding | None:
        best = self._best_window(scatter, level)
        if best is None:
            return None
        excess, view, z, *_ = best
        if level.seen == 1:
            return self._request(best, ROUNDS - level.rounds) if excess > -SUSPECT else None
        level.decided = True
        if excess <= 0 or level.rounds < ROUNDS - 1 or not self._each_sitting_agrees(scatter, level, view, z):
            return None
        found = self._finding(Kind.SLOWER if z > 0 else Kind.FASTER, best)
        self._restart(view[0])
        return found

    def _best_window(self, scatter: Scatter, level: Level) -> Best | None:
        """Compare every window that has levels before it. Return the one that exceeds its limit by most."""
        best: Best | None = None
        spread, limits = scatter.variance * scatter.factor, _limits(self.rate, scatter.df)
        allowance, link = scatter.allowance(*level.squares()), abs(level.link - self.levels[0].link)
        all_rounds, total = self._sums[-1][0] + level.rounds, self._sums[-1][1] + level.rounds * level.mean
        for view, limit in limits:
            window, values = view[0], level.compared(view)
            if window >= len(self.levels):
                break
            before, sum_before = self._sums[-window]
            rounds = all_rounds - before
            if not before or not rounds or not values:
                continue
            own, part = SHARES[view[1]]
            mean = math.fsum(value * count for value, count in values) / rounds if view[1] else (total - sum_before) / rounds
            change = mean - part * sum_before / before
            error = math.sqrt(spread * (own / rounds + part * part / before) + link)
            size = max(0.0, abs(change) / error - allowance * math.sqrt(level.rounds / rounds / own))
            if best is None or size - limit > best[0]:
                best = size - limit, view, math.copysign(size, change), change, error
        return best

    def _each_sitting_agrees(self, scatter: Scatter, level: Level, view: View, z: float) -> bool:
        rounds, total = self._sums[-view[0]]
        own, part = SHARES[view[1]]
        sign, spread, earlier = math.copysign(1.0, z), scatter.variance * own, part * total / rounds
        return all(sign * (mean - earlier) > EACH_SITTING * math.sqrt(spread / count) for mean, count in level.compared(view))

    def _request(self, best: Best, rounds: int) -> Finding:
        return self._finding(Kind.MEASURE_AGAIN, best, max(FEWEST_ROUNDS, min(ROUNDS, rounds)))

    def _finding(self, kind: Kind, best: Best, rounds: int = 0) -> Finding:
        excess, (window, _), z, change, error = best
        first = self.levels[-window].first
        return Finding(
            kind=kind,
            at=self._index,
            first=first,
            last_good=self.levels[-window - 1].last if window < len(self.levels) else first,
            change=change,
            standard_error=error,
            z=z,
            limit=abs(z) - excess,
            window=window,
            rounds=rounds,
        )

    def _restart(self, window: int) -> None:
        """Forget what was before the change. Its own levels are the first of what follows."""
        kept = self.levels[-window:]
        self.levels, self._sums, self._codes = [], [(0, 0.0)], set()
        for level in kept:
            if self.levels:
                self._close(self.levels[-1])
            self.levels.append(level)


def scan(sittings: Iterable[Sitting], rate: float) -> tuple[Finding, ...]:
    """Return every change, and at the end the request that is still open."""
    detector, found, last = Detector(rate), [], None
    for sitting in sittings:
        last = detector.add(sitting)
        if last is not None and last.kind is not Kind.MEASURE_AGAIN:
            found.append(last)
            last = None
    return (*found, last) if last is not None else tuple(found)


def rate_of(series: int, false_alerts: float = FALSE_ALERTS) -> float:
    """Share the suite's false alerts per 1,000 commits between its series."""
    return false_alerts / 1000.0 / max(1, series)


@cache
def _limits(rate: float, df: int) -> tuple[tuple[View, float], ...]:
    return tuple((view, t_quantile(share * rate, max(1, df))) for view, share in WINDOWS.items())


def _is_timed(sitting: Sitting) -> bool:
    error = sitting.standard_error
    return error is not None and sitting.rounds > 1 and error > 0 and math.isfinite(error) and math.isfinite(sitting.log_ratio)


def _round_of(sitting: Sitting) -> tuple[float, float]:
    """Return the variance of one round, and its degrees of freedom."""
    return (sitting.standard_error or 0.0) ** 2 * sitting.rounds, sitting.rounds - 1.0
