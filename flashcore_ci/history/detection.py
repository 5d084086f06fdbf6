"""Find steps and creep in a series of log(head / anchor), with a stated rate of false alerts.

**Levels.** Consecutive sittings of equal code are one level, so equal code never alerts. A level has the mean of its rounds.

**Test.** The newest level is compared with all levels since the last change. For w = 1, 2, 4, 8, 16 the mean of the newest w levels
(n rounds) has the distance

    z_w = (mean_w - mean_before) / sqrt(f s2 (1/n + 1/n_before) + link2)

from the mean of all levels before them (n_before rounds). w = 1 finds steps, the others find creep, whose sum grows while the error
of a mean falls. ``s2`` is the variance of one round, pooled over all sittings. ``f`` is 1, or how much more sittings
differ than their rounds explain, if that is significant (von Neumann's successive differences, Ann. Math. Stat. 12,
1941). ``link2`` is the variance of the anchors that were replaced in between: their error is one, however many levels share it.

**Limit.** A change needs z_w > t(share_w rate), Student's quantile. ``rate`` is the largest expected number of false alerts per series
and commit. The shares add up to 1, so Boole's inequality holds for any correlation between windows.

**Re-measurement.** Within ``SUSPECT`` of the limit the level is measured again in another sitting, up to 8 rounds. It alerts if all rounds
together exceed the limit and each sitting alone points the same way.

**Disturbed processes.** A sitting whose rounds scatter too much (F test at ``DISTURBED_ALPHA``) does not count and is repeated. If the rounds
of a level scatter more than expected, two disturbed rounds of 8 may be the reason. With a sum of squares ``q`` they move z by up to
sqrt((q - q0) / 3), which is subtracted. If more than 1 % of the sittings are disturbed, so is what one round moves unnoticed.

Sources: E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954. M. Basseville, I. V. Nikiforov, "Detection of abrupt changes",
1993, chapter 2 (moving windows of a generalised likelihood ratio).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Protocol

from flashcore_ci.history.scatter import MIN_SITTINGS, Scatter
from flashcore_ci.judge.stats.distributions import t_quantile

WINDOWS = {1: 0.8, 2: 0.05, 4: 0.05, 8: 0.05, 16: 0.05}
"""Levels of a window, and its share of the rate."""
FALSE_ALERTS = 0.05
"""The largest expected number of false alerts of a whole suite in 1,000 commits that all change the code."""
ROUNDS = 8
"""Rounds that decide a level."""
FEWEST_ROUNDS = 3
"""Rounds of a re-measurement."""
SUSPECT = 2.0
"""A level this close to the limit (in z) is measured again."""
EACH_SITTING = 1.3
"""The z of every single sitting of an alert."""


class Sitting(Protocol):
    """A point of ``Track``: a log ratio, its standard error (None: not timed), and the code that ran."""

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


@dataclass(slots=True)
class Level:
    """Sittings of equal code. ``sittings``: mean, rounds and sum of squares of each that counts."""

    code: str
    first: int
    last: int
    link: float
    sittings: list[tuple[float, int, float]] = field(default_factory=list)
    seen: int = 0
    rounds: int = 0
    mean: float = 0.0
    decided: bool = False

    def add(self, mean: float, rounds: int, squares: float) -> None:
        """Add a sitting that counts."""
        self.mean = (self.mean * self.rounds + mean * rounds) / (self.rounds + rounds)
        self.rounds += rounds
        self.sittings.append((mean, rounds, squares))

    def squares(self) -> tuple[float, int]:
        """Sum of squares of all rounds about their mean, and its degrees of freedom."""
        between = math.fsum(rounds * (mean - self.mean) ** 2 for mean, rounds, _ in self.sittings)
        return between + math.fsum(squares for *_, squares in self.sittings), self.rounds - 1


Best = tuple[float, int, float, float, float]
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
        (variance, df), rounds, level.seen = _round_of(sitting), sitting.rounds, level.seen + 1
        disturbed = scatter.is_disturbed(variance, df)
        if not disturbed:
            if not early:
                scatter.add(variance, df)
            level.add(sitting.log_ratio, rounds, variance * df)
            if self._before is not None:
                scatter.add_step(self._before, (sitting.log_ratio, rounds))
            self._before = sitting.log_ratio, rounds
        if early or level.decided or level.code in self._codes:
            return None
        if disturbed and level.seen == 1:
            return self._request((0.0, 1, 0.0, 0.0, 0.0), ROUNDS)
        return self._decide(scatter, level) if level.rounds else None

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
        excess, window, z, *_ = best
        if level.seen == 1:
            return self._request(best, ROUNDS - level.rounds) if excess > -SUSPECT else None
        level.decided = True
        if excess <= 0 or level.rounds < ROUNDS or not self._each_sitting_agrees(scatter, level, window, z):
            return None
        found = self._finding(Kind.SLOWER if z > 0 else Kind.FASTER, best)
        self._restart(window)
        return found

    def _best_window(self, scatter: Scatter, level: Level) -> Best | None:
        """Compare every window that has levels before it. Return the one that exceeds its limit by most."""
        best: Best | None = None
        spread, limits = scatter.variance * scatter.factor, _limits(self.rate, scatter.df)
        allowance, link = scatter.allowance(*level.squares()), abs(level.link - self.levels[0].link)
        all_rounds, total = self._sums[-1][0] + level.rounds, self._sums[-1][1] + level.rounds * level.mean
        for window, limit in limits:
            if window >= len(self.levels):
                break
            before, sum_before = self._sums[-window]
            rounds = all_rounds - before
            if not before or not rounds:
                continue
            change = (total - sum_before) / rounds - sum_before / before
            error = math.sqrt(spread * (1 / rounds + 1 / before) + link)
            size = max(0.0, abs(change) / error - allowance * math.sqrt(level.rounds / rounds))
            if best is None or size - limit > best[0]:
                best = size - limit, window, math.copysign(size, change), change, error
        return best

    def _each_sitting_agrees(self, scatter: Scatter, level: Level, window: int, z: float) -> bool:
        rounds, total = self._sums[-window]
        sign, spread = math.copysign(1.0, z), scatter.variance
        return all(sign * (mean - total / rounds) > EACH_SITTING * math.sqrt(spread / count) for mean, count, _ in level.sittings)

    def _request(self, best: Best, rounds: int) -> Finding:
        return self._finding(Kind.MEASURE_AGAIN, best, max(FEWEST_ROUNDS, min(ROUNDS, rounds)))

    def _finding(self, kind: Kind, best: Best, rounds: int = 0) -> Finding:
        excess, window, z, change, error = best
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
def _limits(rate: float, df: int) -> tuple[tuple[int, float], ...]:
    return tuple((window, t_quantile(share * rate, max(1, df))) for window, share in WINDOWS.items())


def _is_timed(sitting: Sitting) -> bool:
    error = sitting.standard_error
    return error is not None and sitting.rounds > 1 and error > 0 and math.isfinite(error) and math.isfinite(sitting.log_ratio)


def _round_of(sitting: Sitting) -> tuple[float, float]:
    """Return the variance of one round, and its degrees of freedom."""
    return (sitting.standard_error or 0.0) ** 2 * sitting.rounds, sitting.rounds - 1.0
