"""What changed at the newest point of a line, and by how much since. Orientation for people: alerts decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from flashcore_ci.judge.stats.descriptive import mean, sample_std
from flashcore_ci.judge.stats.distributions import t_quantile
from flashcore_ci.model.dashboard import AlertView, Dot, Line
from flashcore_ci.model.history import StoredVerdict
from flashcore_ci.model.verdict import Outcome

BEFORE = 20
"""Points before the newest that it is compared with."""
FEWEST = 4
TAIL = 0.0005
LEAST = 0.002
"""The smallest change that is named."""
WIDEST = 0.02
"""A wider interval proves nothing."""
MONTH = 30 * 86_400
OPEN = frozenset({"detected", "staged", "active", "verify"})


class Status(StrEnum):
    """What a reader must know of a line, the most urgent first."""

    REGRESSED = "regressed"
    FAILED = "failed"
    IMPROVED = "improved"
    UNPROVEN = "unproven"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A status with its reason. ``estimate`` is log(newest / before) with the half width of its interval, if known."""

    status: Status
    why: str
    estimate: float | None = None
    half_width: float | None = None
    month: float | None = None


def level(line: Line, dot: Dot) -> float | None:
    """Return what is compared: the log ratio to the anchor, else the log of the value."""
    if line.is_anchored:
        return dot.ratio
    return math.log(dot.value) if dot.value is not None and dot.value > 0 else None


def comparable(line: Line) -> list[Dot]:
    """Return the points that may be compared with the newest: all with an anchor, else those of its epoch."""
    timed = [dot for dot in line.dots if level(line, dot) is not None]
    return [dot for dot in timed if line.is_anchored or dot.epoch == timed[-1].epoch]


def of(line: Line, alerts: Sequence[AlertView], times: dict[int, int], verdict: StoredVerdict | None = None) -> Change:
    """Compare the newest point with those before. ``times`` are those of runs, ``verdict`` is what blocks the newest run."""
    if not line.dots:
        return Change(status=Status.UNPROVEN, why="no run measured it")
    newest, usable = line.dots[-1], comparable(line)
    estimate, half = _estimate(line, usable)
    month = _since_a_month(line, usable, times)
    known = {"estimate": estimate, "half_width": half, "month": month}
    alert = next((a for a in alerts if a.state in OPEN and any(part.line == line.key for part in a.parts)), None)
    if alert is not None:
        part = next(part for part in alert.parts if part.line == line.key)
        status = Status.REGRESSED if part.log_ratio > 0 else Status.IMPROVED
        known |= {"estimate": part.log_ratio, "half_width": 2 * part.error}
        return Change(status=status, why=f"alert {alert.key}, {alert.state}", **known)
    if verdict is not None:
        status = Status.FAILED if verdict.outcome is Outcome.FAIL else Status.UNPROVEN
        return Change(status=status, why=f"{verdict.gate}: {verdict.code}", **known)
    if not usable:
        return Change(status=Status.UNCHANGED, why="checked, not timed", **known)
    if level(line, newest) is None and (newest.code is None or newest.code != usable[-1].code):
        return Change(status=Status.UNPROVEN, why="the newest run did not time it", **known)
    return _measured(usable, estimate, half, known)


def _measured(usable: Sequence[Dot], estimate: float | None, half: float | None, known: dict[str, float | None]) -> Change:
    if estimate is None or half is None:
        why = f"{len(usable)} comparable {'run' if len(usable) == 1 else 'runs'}, {FEWEST + 1} are needed"
        return Change(status=Status.UNPROVEN, why=why, **known)
    if len({dot.code for dot in usable[-BEFORE - 1 :]}) == 1:
        return Change(status=Status.UNCHANGED, why="the same code", **known)
    if half > WIDEST:  # it scatters, or the versions before differ
        since, width = _since_version(usable)
        if since is None or abs(since) > max(width, LEAST) or width > WIDEST:
            return Change(status=Status.UNPROVEN, why=f"its runs scatter: ±{100 * half:.1f} %", **known)
        known |= {"estimate": since, "half_width": width}
        return Change(status=Status.UNCHANGED, why="as fast as the version before, and earlier ones differ", **known)
    if abs(estimate) > max(half, LEAST):
        slower = estimate > 0
        why = f"the newest of {len(usable)} runs is {'slower' if slower else 'faster'}"
        return Change(status=Status.REGRESSED if slower else Status.IMPROVED, why=why, **known)
    return Change(status=Status.UNCHANGED, why=f"a change above {100 * max(half, LEAST):.1f} % would be seen", **known)


def _estimate(line: Line, usable: Sequence[Dot]) -> tuple[float | None, float | None]:
    """Return log(newest / mean before) with the half width of its 99.9 % prediction interval."""
    levels = [value for dot in usable[-BEFORE - 1 :] if (value := level(line, dot)) is not None]
    before = levels[:-1]
    if len(before) < FEWEST:
        return (levels[-1] - mean(before) if before else None), None
    spread = sample_std(before) * math.sqrt(1 + 1 / len(before))
    return levels[-1] - mean(before), t_quantile(TAIL, len(before) - 1) * spread


def _since_version(usable: Sequence[Dot]) -> tuple[float | None, float]:
    """Return log(newest code / code before) of anchored points, with the half width of its 99.9 % interval."""
    newest = usable[-1].code
    old = next((dot.code for dot in reversed(usable) if dot.code != newest), None)
    sides = [
        dict.fromkeys((dot.ratio, dot.error or 0.0) for dot in usable if dot.code == code and dot.ratio is not None)
        for code in (newest, old)
    ]
    if old is None or not all(sides):
        return None, 0.0
    (level, error), (before, other) = (_mean_with_error(tuple(side)) for side in sides)
    return level - before, t_quantile(TAIL, FEWEST) * math.hypot(error, other)


def _mean_with_error(sittings: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the mean of sittings. Its error is what they state, or what they scatter if that is more."""
    levels, root = [level for level, _ in sittings], math.sqrt(len(sittings))
    stated = math.sqrt(mean([error**2 for _, error in sittings]))
    return mean(levels), max(stated, sample_std(levels) if len(levels) > 1 else 0.0) / root


def _since_a_month(line: Line, usable: Sequence[Dot], times: dict[int, int]) -> float | None:
    """Return log(mean of the newest five / mean of five a month ago)."""
    if not usable or usable[-1].run not in times:
        return None
    limit = times[usable[-1].run] - MONTH
    old = [dot for dot in usable if times.get(dot.run, limit + 1) <= limit][-5:]
    values = [[value for dot in part if (value := level(line, dot)) is not None] for part in (old, usable[-5:])]
    return mean(values[1]) - mean(values[0]) if old else None
