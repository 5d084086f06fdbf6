"""Turn alerts, stored or as files next to the suite, into what pages show. The only place that knows their form."""

from __future__ import annotations

import datetime as dt
import importlib
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from flashcore_ci.model.dashboard import AlertPart, AlertView, Line
from flashcore_ci.model.history import Alert, RunRow

READER = "flashcore_ci.suite.alerts"


class AlertedSeries(Protocol):
    """A series of an alert's file."""

    workload: str
    machine_class: str
    suite: str
    percent: float
    standard_error: float


class AlertFile(Protocol):
    """An alert's file, as ``suite/alerts.py`` reads it. Days are ISO dates or ""."""

    id: str
    state: str
    opened: str
    commit: str
    series: Sequence[AlertedSeries]
    changes: Sequence[str]
    owner: str
    reason: str
    until: str
    closed: str


def files(suite: Path) -> tuple[AlertFile, ...]:
    """Read the alerts next to the suite, if this version has files of alerts."""
    if not suite.is_file() or find_spec(READER) is None:
        return ()
    return tuple(importlib.import_module(READER).read_alerts(suite))


def of_file(alert: AlertFile, lines: Sequence[Line], runs: Mapping[int, RunRow]) -> AlertView:
    """Place the alert of a file at the first run of its commit."""
    parts = []
    for series in alert.series:
        key = (series.suite, series.workload, series.machine_class)
        for line in lines:
            same = (line.series.suite, line.series.workload, line.series.machine_class) == key
            first = next((dot.run for dot in line.dots if runs[dot.run].commit.sha == alert.commit), None) if same else None
            if first is not None:
                ratio = math.log1p(max(series.percent, -99.0) / 100)
                parts.append(AlertPart(line=line.key, first=first, log_ratio=ratio, error=series.standard_error / 100))
    return AlertView(
        key=alert.id,
        state=str(alert.state),
        owner=alert.owner,
        reason=alert.reason,
        until=alert.until,
        opened_at=_seconds(alert.opened) or 0,
        closed_at=_seconds(alert.closed),
        parts=tuple(parts),
        note=", ".join(alert.changes),
    )


def of_store(alert: Alert, lines: Mapping[int, str]) -> AlertView:
    """Return the alert of the database. ``lines`` are keys by the id of the series."""
    names = ("key", "state", "owner", "reason", "until", "opened_at", "closed_at")
    parts = tuple(
        AlertPart(line=lines[part.series], first=part.first, log_ratio=part.log_ratio, error=part.standard_error)
        for part in alert.series
        if part.series in lines
    )
    return AlertView(**{name: getattr(alert, name) for name in names}, parts=parts)


def _seconds(day: str) -> int | None:
    return int(dt.datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()) if day else None
