"""Time launches of an untrusted process by the supervisor's clock. Pure arithmetic.

A burst is timed from the end of its delivery until its outputs were copied. So the slope between bursts of N and 2N
launches is the time of one launch. What both bursts share must not be longer than the supervisor's own part of it. Otherwise
launches could hide in the shared part. A launch alone must not be slower than one in a burst, or one could work for all.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

TOLERANCE = 0.02
TOLERANCE_MS = 0.002
SHARED_MS = 0.1
"""Noise of what two bursts share. More counts as time of the launches."""
HOPELESS_PAIRS, HOPELESS_TIMES = 18, 5.0
FIRST_MS = 0.4
"""The first launch of a burst waits for Python, and finds cold caches: 0.2 to 0.3 ms for honest candidates on an H200."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """One burst in ms: by the supervisor's clock, by the candidate's own, and before that while its inputs arrived."""

    launches: int
    outside: float
    inside: float
    delivery: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Bursts of N and 2N launches."""

    short: Burst
    long: Burst

    @property
    def outside(self) -> float:
        """Milliseconds per launch by the supervisor's clock."""
        return (self.long.outside - self.short.outside) / (self.long.launches - self.short.launches)

    @property
    def inside(self) -> float:
        """Milliseconds per launch by the candidate's clock."""
        return (self.long.inside - self.short.inside) / (self.long.launches - self.short.launches)

    @property
    def shared(self) -> float:
        """Milliseconds that no launch explains."""
        return self.short.outside - self.short.launches * self.outside


def disagreement(pairs: Sequence[Pair], alone: Sequence[float], idle: Burst) -> str:
    """Return why the clocks do not agree, or "".

    ``alone``: ms of bursts of one launch. ``idle``: a burst without a launch, before the candidate's code ran.
    """
    outside, inside, shared = (
        statistics.median(getattr(pair, name) for pair in pairs) for name in ("outside", "inside", "shared")
    )
    if not outside > 0:
        return f"twice the launches take {outside * 1e3:+.2f} µs more per launch by the supervisor's clock"
    if not abs(inside - outside) <= max(TOLERANCE * outside, TOLERANCE_MS):
        return f"{inside * 1e3:.2f} µs per launch by the candidate's clock, {outside * 1e3:.2f} µs by the supervisor's"
    allowed = max(SHARED_MS, pairs[0].short.launches * max(TOLERANCE * outside, TOLERANCE_MS))
    delivery = statistics.median(burst.delivery for pair in pairs for burst in (pair.short, pair.long)) - idle.delivery
    if not delivery <= max(allowed, TOLERANCE / 2 * idle.delivery):
        return f"inputs take {delivery:.2f} ms longer to arrive than before the code was loaded: work before the command"
    allowed = max(allowed, FIRST_MS)
    if not shared - idle.outside <= allowed:
        return f"{shared - idle.outside:.2f} ms of a burst do not grow with its launches (at most {allowed:.2f} ms)"
    if not (more := statistics.median(alone) - idle.outside - outside) <= allowed:
        return (
            f"a launch alone takes {more:.2f} ms more than one in a burst (at most {allowed:.2f} ms): one launch works for others"
        )
    return ""


def is_hopeless(pairs: Sequence[Pair]) -> bool:
    """Tell whether the clocks are so far apart that more pairs cannot bring them together."""
    outside, inside = (statistics.median(getattr(pair, name) for pair in pairs) for name in ("outside", "inside"))
    return len(pairs) >= HOPELESS_PAIRS and abs(inside - outside) > HOPELESS_TIMES * max(TOLERANCE * outside, TOLERANCE_MS)


def unexplained(pairs: Sequence[Pair], idle: Burst) -> float:
    """Return the milliseconds per launch of the long burst that the slope leaves out, beyond noise.

    Waiting in short bursts makes the slope smaller by at most this. So slope and this together are never less than the truth.
    """
    shared = statistics.median(pair.shared for pair in pairs)
    return max(0.0, shared - idle.outside - SHARED_MS) / pairs[0].long.launches
