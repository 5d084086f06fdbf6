"""Find the commit that made a kernel slower. Pure: a caller measures.

Only commits whose code differs are measured, each in one sitting with the good and the bad end. Per round the datum is
log(middle) minus the mean of log(good) and log(bad), so a commit is on the side that it is nearer to. If undecided, more
rounds are measured.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from flashcore_ci.judge.stats.paired_estimate import Estimate, Prior, estimate
from flashcore_ci.model.codes import Code

LOOKS = (5, 8, 12, 20, 32, 50, 80, 128, 256)
"""After how many rounds a comparison may end."""
ALPHA = 0.001
"""The largest probability that one comparison puts a commit on the wrong side."""
SPENDING = dict(zip(LOOKS, (0.1, 0.2, 0.15, 0.15, 0.1, 0.05, 0.05, 0.05, 0.15), strict=True))
"""The share of alpha that each look spends."""
CONTRAST = 0.75
"""The variance of a round's datum over that of a ratio: 1 + 1/4 + 1/4 processes in place of 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One commit as built by named tools. ``code``: equal code has an equal name. "": it could not be built."""

    commit: str
    code: str
    subject: str = ""
    tools: str = ""

    @property
    def name(self) -> str:
        """The state for people."""
        return f"{self.commit[:12]}{f' with {self.tools}' if self.tools else ''} {self.subject}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a commit is: SLOWER as the bad end, SAME as the good end, or UNDECIDED. ``step``: log(bad / good)."""

    code: Code
    middle: Estimate
    step: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A measured commit and what was found."""

    state: State
    placement: Placement | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The last good and the first bad state. ``between`` could not be decided, so the culprit may be one of them."""

    last_good: State
    first_bad: State
    between: tuple[State, ...]
    steps: tuple[Step, ...]
    distinct: int
    is_real: bool = True


def place(
    good: Sequence[float],
    middle: Sequence[float],
    bad: Sequence[float],
    prior: Prior | None = None,
    clocks: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Placement | None:
    """Place a commit by paired rounds. None before the first look. ValueError for values that cannot be measurements.

    ``clocks``: logs of the mean clocks, where the values are cycles at a common one by the slope of ``prior``.
    """
    rounds = len(middle)
    look = max((look for look in LOOKS if look <= rounds), default=0)
    if not look:
        return None
    logs = [tuple(map(math.log, values)) for values in zip(good, middle, bad, strict=True)]
    known = None if prior is None else Prior(variance=CONTRAST * prior.variance, df=prior.df)
    slope_error = prior.slope_error if prior is not None else 0.0
    step = estimate([b - g for g, _, b in logs], prior).widened(slope_error * abs(clocks[2] - clocks[0]))
    sign = 1.0 if step.mean > 0 else -1.0
    between = abs(clocks[1] - (clocks[0] + clocks[2]) / 2)
    contrast = estimate([sign * (m - (g + b) / 2) for g, m, b in logs], known).widened(slope_error * between)
    alpha = ALPHA * SPENDING[look]
    if contrast.lower_bound(alpha) > 0:
        return Placement(code=Code.SLOWER, middle=contrast, step=step)
    if contrast.upper_bound(alpha) < 0:
        return Placement(code=Code.SAME, middle=contrast, step=step)
    return Placement(code=Code.UNDECIDED, middle=contrast, step=step)


def is_real(step: Estimate) -> bool:
    """Tell whether the ends differ at all."""
    return step.lower_bound(ALPHA) > 0 or step.upper_bound(ALPHA) < 0


def search(states: Sequence[State], measure: Callable[[State], Placement | None]) -> Found:
    """Search from the good end to the bad one. ``measure`` is asked once per code."""
    classes = [tuple(group) for _, group in itertools.groupby((s for s in states if s.code), key=lambda state: state.code)]
    known: dict[str, Code] = {classes[-1][0].code: Code.SLOWER, classes[0][0].code: Code.SAME}
    low, high, steps, real = 0, len(classes) - 1, [], True
    while (middle := _next(classes, known, low, high)) is not None and real:
        state = classes[middle][0]
        if state.code not in known:
            placement = measure(state)
            steps.append(Step(state=state, placement=placement))
            known[state.code] = Code.UNDECIDED if placement is None else placement.code
            real = placement is None or placement.code is not Code.UNDECIDED or is_real(placement.step)
        if known[state.code] is Code.SLOWER:
            high = middle
        elif known[state.code] is Code.SAME:
            low = middle
    last, first = classes[low][-1], classes[high][0]
    inside = states[states.index(last) + 1 : states.index(first)]
    return Found(last_good=last, first_bad=first, between=tuple(inside), steps=tuple(steps), distinct=len(classes), is_real=real)


def _next(classes: Sequence[tuple[State, ...]], known: Mapping[str, Code], low: int, high: int) -> int | None:
    """Return the undecided class nearest to the middle, or None."""
    open_classes = [number for number in range(low + 1, high) if known.get(classes[number][0].code) is not Code.UNDECIDED]
    return min(open_classes, key=lambda number: abs(2 * number - low - high), default=None)
