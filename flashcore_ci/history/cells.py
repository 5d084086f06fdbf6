"""What goes into a cell. Everything in a run is from outside: text is made visible and bounded, and numbers must fit their columns."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from flashcore_ci.model.errors import EvidenceError
from flashcore_ci.model.identity import digest_of
from flashcore_ci.model.text import visible

Row = dict[str, Any]
MAX_INTEGER = 2**53
MAX_NUMBER = 1e30
MAX_TEXT = 500
FIX = "collect again: the evidence was altered"


def line(text: str) -> str:
    """Make text visible, in one line and bounded. PostgreSQL takes no NUL, and pages no control characters."""
    return visible(" ".join(text[:MAX_TEXT].split()))


@lru_cache(maxsize=4096)
def label(text: str) -> str:
    """Make a name as ``line`` does. Two names stay two: one that is not shown as it is ends in its digest."""
    shown = line(text)
    return shown if shown == text else f"{shown} {digest_of(text)[:12]}"


def integer(value: int, what: str) -> int:
    """Return a whole number that every database keeps. EvidenceError for another."""
    if not abs(value) <= MAX_INTEGER:
        raise EvidenceError(f"{what} is {value}, and no GPU has that", fix=FIX)
    return value


def number(value: float) -> float:
    """Return a number that also single precision keeps. EvidenceError for another."""
    if not abs(value) <= MAX_NUMBER:
        raise EvidenceError(f"a value is {value:g}, and no measurement has that", fix=FIX)
    return value


def as_json(value: Any) -> str:
    """Encode without blanks."""
    return json.dumps(value, separators=(",", ":"))
