"""Define the constants of the timing protocol. docs/protocol.md has the reason for each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """When a measurement has settled, in seconds.

    Blocks in the lead are not sampled: clock and power still follow the new load. The last window is the sample, once it has settled.
    """

    lead: float
    window: float
    min_blocks: int


COMPARED = Settling(lead=0.1, window=0.2, min_blocks=8)
"""For comparisons, whose margins are 0.2 % and more, and for the recorded noise."""
TIMED = Settling(lead=0.06, window=0.12, min_blocks=7)
"""For timings of one side, which are judged at a common clock."""
MAX_SECONDS = 5.0
MAX_DRIFT = 0.3
"""Largest difference between the cycles of the window's halves, in per cent."""
MAX_CLOCK_MOVE = 30.0
"""Largest difference between the clocks of the window's halves, in MHz."""
BLOCK_MS = 15.0
SHORT_MS = 0.05
"""Kernels below this are launched in CUDA graphs."""
SPARE_PROCESSES = 3
"""Processes of each candidate that start ahead of their use."""

PROTOCOL = (
    ("lead/seconds", COMPARED.lead),
    ("window/seconds", COMPARED.window),
    ("window/blocks", float(COMPARED.min_blocks)),
    ("longest/seconds", MAX_SECONDS),
    ("drift/%", MAX_DRIFT),
    ("clock-move/MHz", MAX_CLOCK_MOVE),
    ("block/ms", BLOCK_MS),
    ("batched-below/ms", SHORT_MS),
    ("batched-in/graphs", 2.0),
)
"""Of comparisons, by name, as a recording of noise keeps them."""
