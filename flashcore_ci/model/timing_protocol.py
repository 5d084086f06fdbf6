"""Define the constants of the timing protocol. docs/protocol.md has the reason for each."""

from __future__ import annotations

LEAD_SECONDS = 0.1
"""Blocks in the lead are not sampled: clock and power still follow the new load."""
WINDOW_SECONDS = 0.2
"""The blocks of the last window are the sample, once it has settled."""
MIN_BLOCKS = 8
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
    ("lead/seconds", LEAD_SECONDS),
    ("window/seconds", WINDOW_SECONDS),
    ("window/blocks", float(MIN_BLOCKS)),
    ("longest/seconds", MAX_SECONDS),
    ("drift/%", MAX_DRIFT),
    ("clock-move/MHz", MAX_CLOCK_MOVE),
    ("block/ms", BLOCK_MS),
    ("batched-below/ms", SHORT_MS),
)
"""By name, as a recording keeps them."""
