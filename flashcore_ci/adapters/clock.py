"""Time. Nothing else reads a clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> str:
    """Return now in UTC to the second, e.g. ``2026-01-31T12:00:00Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def monotonic() -> float:
    """Return seconds that never decrease."""
    return time.monotonic()


def wall() -> float:
    """Return seconds since 1970, as files have."""
    return time.time()


def sleep(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)
