"""Time, in one place, so that nothing else needs to ask for it."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> str:
    """The present moment: ISO 8601, UTC, to the second, e.g. ``2026-01-31T12:00:00Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def today() -> str:
    """The present day in UTC, e.g. ``2026-01-31``."""
    return now()[:10]


def monotonic() -> float:
    """Seconds since some fixed moment; never goes back."""
    return time.monotonic()


def wall() -> float:
    """Seconds since 1970, as files' times are given."""
    return time.time()


def sleep(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)
