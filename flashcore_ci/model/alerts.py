"""An alert: several series of one entry function became slower at one commit. States follow LLVM LNT.

``alerts update`` writes what was found (``FACTS``). ``alerts triage`` writes what people decide.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum

from flashcore_ci.model.identity import digest_of


class AlertState(StrEnum):
    """Where an alert is between its detection and its end."""

    DETECTED = "detected"
    STAGED = "staged"
    ACTIVE = "active"
    IGNORED = "ignored"
    VERIFY = "verify"
    FIXED = "fixed"


UNTRIAGED = frozenset({AlertState.DETECTED, AlertState.STAGED})
"""Not decided yet. ``staged``: somebody looks at it."""
DECIDED = frozenset({AlertState.ACTIVE, AlertState.IGNORED, AlertState.VERIFY})
"""Decisions. Each has an owner, a reason and a last day. ``verify``: the owner says that it is fixed."""
MAX_DAYS = 92
"""A decision that ends later has no effect."""
FACTS = ("opened", "commit", "last_good", "series", "entries", "changes", "evidence")
"""What was found. No decision changes these fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertedSeries:
    """A series of an alert. ``percent`` is its slowdown with its standard error, ``z`` what the detector saw of how much it allows."""

    suite: str
    workload: str
    machine_class: str
    percent: float
    standard_error: float
    z: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFile:
    """An alert as in git. Days are ISO dates in UTC, or "". ``commit`` is the first bad commit, ``last_good`` the one before.

    ``entries`` are the entry functions that the series share, ``changes`` what else changed, one line each. ``evidence`` are digests
    of the runs that show it. ``closed`` is the day on which it ended.
    """

    id: str
    state: AlertState
    opened: str
    commit: str
    last_good: str
    series: tuple[AlertedSeries, ...]
    entries: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    owner: str = ""
    reason: str = ""
    until: str = ""
    closed: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the regression is still there, as far as anybody knows."""
        return self.state is not AlertState.FIXED

    def is_decided(self, day: dt.date) -> bool:
        """Whether somebody decided what happens, for at most ``MAX_DAYS`` and until ``day`` or later."""
        if self.state is AlertState.FIXED:
            return bool(self.closed)
        if self.state in UNTRIAGED or not (self.owner and self.reason and self.until):
            return False
        return day <= dt.date.fromisoformat(self.until) <= day + dt.timedelta(days=MAX_DAYS)

    def age(self, day: dt.date) -> int:
        """Days since it was opened. An alert of the future is as old as can be."""
        days = (day - dt.date.fromisoformat(self.opened)).days
        return days if days >= 0 else 10**6

    @property
    def percent(self) -> float:
        """The largest slowdown."""
        return max((each.percent for each in self.series), default=0.0)


def alert_id(commit: str, entries: tuple[str, ...], workloads: tuple[str, ...]) -> str:
    """Name an alert by what it is about, so that it is found again and never opened twice."""
    return f"{commit[:12] or 'unknown'}-{digest_of(*sorted(entries), '', *sorted(() if entries else workloads))[:8]}"
