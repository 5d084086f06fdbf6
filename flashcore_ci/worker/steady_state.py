"""When has a GPU settled? Pure arithmetic on blocks of launches.

A block is one sample: the median time of some launches, and the SM clock that was read in the stream around them. The first
tenth of a second is the lead, in which clock and power go where the load takes them. Settled means that, over a fifth of a
second after it, the two halves' block medians, in cycles, differ by less than 0.3 %, and their clocks by no more than 30 MHz;
until then the window moves on. In cycles (time x clock), because under a power cap the clock jitters by some per cent from
block to block; the second condition looks after the clock. Medians of halves, so that single blocks decide nothing.
docs/measurement.md shows from recorded blocks why a longer window would only cost time.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from flashcore_ci.model.timing_protocol import LEAD_SECONDS, MAX_CLOCK_MOVE, MAX_DRIFT, MIN_BLOCKS, WINDOW_SECONDS


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
    """The window: its blocks, by how much its second half differs from its first (% in cycles, MHz), and the judgement."""

    blocks: tuple[Block, ...]
    drift: float
    clock_move: float
    settled: bool


def state(blocks: Sequence[Block]) -> State:
    """The state after the last of ``blocks``.

    Throttled blocks do not count, and must not be the most. Too few blocks, or less than lead and window, is unsettled.
    """
    recent = [block for block in blocks if block.at > blocks[-1].at - WINDOW_SECONDS]
    recent = recent if len(recent) >= MIN_BLOCKS else list(blocks[-MIN_BLOCKS:])  # long launches make long blocks
    window = tuple(block for block in recent if not block.throttled)
    if 2 * len(window) < MIN_BLOCKS:
        return State(blocks=window, drift=0.0, clock_move=0.0, settled=False)
    drift, move = relative_drift(window), clock_move(window)
    covered = len(recent) >= MIN_BLOCKS and blocks[-1].at >= LEAD_SECONDS + WINDOW_SECONDS and recent[0].at > LEAD_SECONDS
    mostly = 2 * len(window) >= len(recent)
    return State(
        blocks=window,
        drift=drift,
        clock_move=move,
        settled=covered and mostly and abs(drift) < MAX_DRIFT and move <= MAX_CLOCK_MOVE,
    )


def relative_drift(blocks: Sequence[Block]) -> float:
    """By how many per cent the median cycles of the second half of ``blocks`` exceed those of the first."""
    first, second = (statistics.median(block.megacycles for block in half) for half in _halves(blocks))
    return 100.0 * (second / first - 1.0)


def clock_move(blocks: Sequence[Block]) -> float:
    """By how many MHz the median clock of the second half of ``blocks`` differs from that of the first."""
    first, second = (statistics.median(block.mhz for block in half) for half in _halves(blocks))
    return abs(second - first)


def relative_std(values: Sequence[float]) -> float:
    """Population standard deviation over the mean, in per cent."""
    return 100.0 * statistics.pstdev(values) / statistics.fmean(values)


def _halves(blocks: Sequence[Block]) -> tuple[Sequence[Block], Sequence[Block]]:
    middle = len(blocks) // 2
    return blocks[:middle], blocks[middle:]
