"""The numbers of the timing protocol; docs/protocol.md has the reason for each."""

from __future__ import annotations

LEAD_SECONDS = 0.1
"""In which clock and power go where the load takes them: no sample."""
WINDOW_SECONDS = 0.2
"""Of blocks, which are the sample once it has settled."""
MIN_BLOCKS = 8
MAX_SECONDS = 5.0
MAX_DRIFT = 0.3
"""Per cent by which the cycles of the window's two halves may differ."""
MAX_CLOCK_MOVE = 30.0
"""MHz by which their clocks may differ."""
BLOCK_MS = 15.0
SHORT_MS = 0.05
"""Kernels below this are batched in CUDA graphs."""

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
