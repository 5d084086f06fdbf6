"""Numbers and names as compact bytes."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping

SINGLE, DOUBLE = "f", "d"
"""Seven digits for what differs in each run (the bundle has all), and every digit for what many runs share."""


def pack(values: Mapping[str, float], kind: str) -> bytes:
    """Pack the values in the order of their names. OverflowError if one does not fit."""
    return struct.pack(f"<{len(values)}{kind}", *(values[name] for name in sorted(values)))


def unpack(names: str, numbers: bytes, kind: str) -> dict[str, float]:
    """Return the finite values by name. ``names`` is the text of ``layout``."""
    ordered = json.loads(names)
    pairs = zip(ordered, struct.unpack(f"<{len(ordered)}{kind}", numbers), strict=True)
    return {name: value for name, value in pairs if is_finite(value)}


def is_finite(value: float | None) -> bool:
    """Whether pages and detectors can use this value of the database."""
    return value is not None and math.isfinite(value)


def layout(values: Mapping[str, float]) -> str:
    """Return the names in order, as JSON."""
    return json.dumps(sorted(values), separators=(",", ":"))
