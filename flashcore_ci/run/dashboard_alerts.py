"""Turn alerts, stored or as files next to the suite, into what pages show. The only place that knows their form."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from flashcore_ci.model.alerts import AlertFile
from flashcore_ci.model.dashboard import AlertPart, AlertView, Line
from flashcore_ci.model.history import Alert, RunRow
from flashcore_ci.suite.alerts import read_alerts


def files(suite: Path) -> tuple[AlertFile, ...]:
    """Read the alerts next to the suite."""
    return read_alerts(suite) if suite.is_file() else ()


def join(stored: Sequence[AlertView], filed: Sequence[AlertView]) -> list[AlertView]:
    """Take an alert that is in both once: decisions are in the file, and the database may know more of its series."""
    parts = {alert.key: alert.parts for alert in stored}
    ours = {alert.key for alert in filed}
    return [
        *(alert for alert in stored if alert.key not in ours),
        *(replace(alert, parts=alert.parts or parts.get(alert.key, ())) for alert in filed),
    ]


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
