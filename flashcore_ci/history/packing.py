"""Numbers and names as compact bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

SINGLE, DOUBLE = "f", "d"
"""Seven digits for what differs in each run (the bundle has all), and every digit for what many runs share."""


def pack(values: Mapping[str, float], kind: str) -> bytes:
    """Pack the values in the order of their names. OverflowError if one does not fit."""
    return struct.pack(f"<{len(values)}{kind}", *(values[name] for name in sorted(values)))


def unpack(names: str, numbers: bytes, kind: str) -> dict[str, float]:
    """Return the values by name. ``names`` is the text of ``layout``."""
    ordered = json.loads(names)
    return dict(zip(ordered, struct.unpack(f"<{len(ordered)}{kind}", numbers), strict=True))


def layout(values: Mapping[str, float]) -> str:
    """Return the names in order, as JSON."""
    return json.dumps(sorted(values), separators=(",", ":"))
