"""Decide from blocks of launches when a GPU has settled. Pure arithmetic.

After a lead, the halves of the last window must differ by less than 0.3 % in median cycles, and by at most 30 MHz.
Drift is in cycles, because a power cap moves the clock from block to block.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from flashcore_ci.model.timing_protocol import COMPARED, MAX_CLOCK_MOVE, MAX_DRIFT, Settling

LEAST_KNOWN = 2  # blocks before it is known how long one takes


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Seconds since the first block, median launch time in ms, SM clock in MHz."""

    at: float
    ms: float
    mhz: float
    throttled: bool = False

    @property
    def megacycles(self) -> float:
        """Median SM cycles of a launch, in millions."""
        return self.ms * self.mhz * 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyState:
    """The usable blocks of the window, and how its halves differ (%, MHz)."""

    blocks: tuple[Block, ...]
    drift: float
    clock_move: float
    settled: bool


def assess(blocks: Sequence[Block], rule: Settling = COMPARED) -> SteadyState:
    """Assess the last window, of which at most half may be throttled (not counted)."""
    recent = _recent(blocks, rule)
    window = tuple(block for block in recent if not block.throttled)
    if 2 * len(window) < rule.min_blocks:
        return SteadyState(blocks=window, drift=0.0, clock_move=0.0, settled=False)
    drift, move = relative_drift(window), clock_move(window)
    mostly_usable = 2 * len(window) >= len(recent)
    settled = _is_complete(recent, rule) and mostly_usable and abs(drift) < MAX_DRIFT and move <= MAX_CLOCK_MOVE
    return SteadyState(blocks=window, drift=drift, clock_move=move, settled=settled)


def may_be_last(blocks: Sequence[Block], rule: Settling) -> bool:
    """Tell whether the window is complete with the next block, if that takes as long as the one before."""
    if len(blocks) < LEAST_KNOWN:
        return False
    following = replace(blocks[-1], at=2 * blocks[-1].at - blocks[-2].at)
    return _is_complete(_recent([*blocks, following], rule), rule)


def _recent(blocks: Sequence[Block], rule: Settling) -> list[Block]:
    recent = [block for block in blocks if block.at > blocks[-1].at - rule.window]
    if len(recent) < rule.min_blocks:  # long launches make long blocks, and so a longer window
        recent = list(blocks[-rule.min_blocks :])
    return recent


def _is_complete(recent: Sequence[Block], rule: Settling) -> bool:
    return len(recent) >= rule.min_blocks and recent[-1].at >= rule.lead + rule.window and recent[0].at > rule.lead


def relative_drift(blocks: Sequence[Block]) -> float:
    """Return how much the second half's cycles exceed the first's, in %."""
    first, second = _medians_of_halves([block.megacycles for block in blocks])
    return 100.0 * (second / first - 1.0)


def clock_move(blocks: Sequence[Block]) -> float:
    """Return by how many MHz the halves' clocks differ."""
    first, second = _medians_of_halves([block.mhz for block in blocks])
    return abs(second - first)


def relative_std(values: Sequence[float]) -> float:
    """Return the standard deviation over the mean, in per cent."""
    return 100.0 * statistics.pstdev(values) / statistics.fmean(values)


def _medians_of_halves(values: Sequence[float]) -> tuple[float, float]:
    middle = len(values) // 2
    return statistics.median(values[:middle]), statistics.median(values[middle:])
