"""When has a GPU settled? Pure arithmetic on blocks of launches.

A block is one sample: the median time of some launches, and the SM clock that was read in the stream around them. Settled
means that, over the last second, the block medians, in cycles, slope less than 0.2 % a second, and the clock moved no more
than 30 MHz. In cycles (time x clock), because under a power cap the clock jitters by some per cent from block to block; the
second condition looks after the clock. Both are robust: the slope is Theil and Sen's (P. K. Sen, "Estimates of the
regression coefficient based on Kendall's tau", JASA 63, 1968: the median slope of all pairs), and the clock's movement is the
difference between the medians of the second's two halves, so that single blocks decide nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

WINDOW_SECONDS = 1.0
MAX_SECONDS = 5.0
MAX_SLOPE = 0.2
MAX_CLOCK_MOVE = 30.0
MIN_BLOCKS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """``at``: seconds since the first block began; ``ms``: median time of a launch; ``mhz``: SM clock; ``throttled``: not to be used."""

    at: float
    ms: float
    mhz: float
    throttled: bool = False

    @property
    def megacycles(self) -> float:
        """Median SM cycles of a launch, in millions: ms x MHz / 1000."""
        return self.ms * self.mhz * 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The last second: its blocks, their slope in per cent a second, the clock's movement in MHz, and the judgement."""

    blocks: tuple[Block, ...]
    slope: float
    clock_move: float
    settled: bool


def state(blocks: Sequence[Block]) -> State:
    """The state after the last of ``blocks``.

    Throttled blocks do not count, and must not be the most. Too few blocks, or less than a second of them, is unsettled.
    """
    recent = [block for block in blocks if block.at > blocks[-1].at - WINDOW_SECONDS]
    window = tuple(block for block in recent if not block.throttled)
    if len(window) < MIN_BLOCKS:
        return State(blocks=window, slope=0.0, clock_move=0.0, settled=False)
    slope, move = relative_slope(window), clock_move(window)
    covered = blocks[-1].at >= WINDOW_SECONDS and 2 * len(window) >= len(recent)
    flat = abs(slope) < MAX_SLOPE and move <= MAX_CLOCK_MOVE
    return State(blocks=window, slope=slope, clock_move=move, settled=covered and flat)


def relative_slope(blocks: Sequence[Block]) -> float:
    """Theil-Sen slope of the block medians in cycles, in per cent of their median a second."""
    slopes = [
        (later.megacycles - earlier.megacycles) / (later.at - earlier.at)
        for index, earlier in enumerate(blocks)
        for later in blocks[index + 1 :]
        if later.at > earlier.at
    ]
    return 100.0 * statistics.median(slopes) / statistics.median(block.megacycles for block in blocks)


def clock_move(blocks: Sequence[Block]) -> float:
    """By how many MHz the median clock of the second half of ``blocks`` differs from that of the first."""
    middle = len(blocks) // 2
    halves = (blocks[:middle], blocks[middle:])
    first, second = (statistics.median(block.mhz for block in half) for half in halves)
    return abs(second - first)


def relative_std(values: Sequence[float]) -> float:
    """Population standard deviation over the mean, in per cent."""
    return 100.0 * statistics.pstdev(values) / statistics.fmean(values)
