"""Use cases of alerts that need the history: open, extend and close the files from what the detector finds."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flashcore_ci.adapters import clock, git_diff
from flashcore_ci.history import address, alerting, database, points, queries, writing
from flashcore_ci.history.alerting import Detection
from flashcore_ci.history.detection import Kind
from flashcore_ci.model.alerts import AlertedSeries, AlertFile, AlertState, alert_id
from flashcore_ci.model.history import Alert, AlertSeries, Code, Point, Standing
from flashcore_ci.model.text import visible
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.suite.alerts import read_alerts, write_alert

SHOWN_FILES = 20
PointOf = Callable[[Detection, int], Point | None]
"""The point of a series in a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What an update did: lines, ids by what happened to them, and (workload, commit, rounds) to measure again."""

    opened: tuple[str, ...]
    closed: tuple[str, ...]
    open: tuple[str, ...]
    again: tuple[tuple[str, str, int], ...]
    lines: tuple[str, ...]


def update(db: str, environ: Mapping[str, str], suite: Path, *, name: str, reviewed: bool = False) -> Update:
    """Look at the whole history of the suite called ``name``, and write alerts next to ``suite`` and into the database.

    ``reviewed``: also runs that are unsigned and reviewed.
    """
    url, present = address.parse(db, environ), {alert.id: alert for alert in read_alerts(suite)}
    standings = (*queries.FEEDS, Standing.REVIEWED) if reviewed else queries.FEEDS
    today = dt.datetime.fromtimestamp(clock.wall(), dt.UTC).date().isoformat()
    with database.reading(url) as connection:
        tracks = points.tracks(connection, suite=name, standings=standings)
        numbers = {p.code_id for track in tracks for p in track.points if p.code_id is not None}
        codes = queries.codes(connection, numbers)
        detections = alerting.detect(tracks, codes)
        slower = [each for each in detections if each.finding.kind is Kind.SLOWER]
        grouped = alerting.groups(slower)

        def point_of(each: Detection, run: int) -> Point | None:
            found = queries.points(connection, each.track.series.id, standings=queries.ALL, run=run)
            return next(iter(found), None)

        made = {group: _make(group, codes, point_of, today, present) for group in grouped}
    opened: list[AlertFile] = []
    closed: list[AlertFile] = []
    still: list[AlertFile] = []
    for group, alert in made.items():
        before, is_gone = present.get(alert.id), all(each.gone for each in group)
        after = _next(alert, before, today, is_gone=is_gone)
        if after is None:
            continue
        if after != before:
            write_alert(suite, after)
        database.write(url, lambda c, a=after, g=group: writing.put_alert(c, _stored(a, g)))  # type: ignore[misc]
        (opened if before is None else closed if before.is_open and not after.is_open else still).append(after)
    requests = tuple(_requests(detections))
    lines = (
        *(f"new: {line_of(alert)}" for alert in opened),
        *(f"fixed: {line_of(alert)}" for alert in closed),
        *(f"open: {line_of(alert)}" for alert in still if alert.is_open),
        *(f"measure again: {workload} at {commit[:12]}, {rounds} rounds" for workload, commit, rounds in requests),
    )
    return Update(
        opened=tuple(a.id for a in opened),
        closed=tuple(a.id for a in closed),
        open=tuple(a.id for a in still if a.is_open),
        again=requests,
        lines=lines or ("nothing was found",),
    )


def line_of(alert: AlertFile) -> str:
    """Write an alert in one line."""
    names = ", ".join(visible(each.workload) for each in alert.series[:3])
    more = f" and {len(alert.series) - 3} more" if len(alert.series) > 3 else ""  # noqa: PLR2004 - three names
    until = f" until {alert.until}" if alert.until else ""
    owner = visible(alert.owner) or "nobody yet"
    return f"{alert.id}  {alert.state:8}  {alert.percent:+.2f} %  {alert.opened}  {owner}{until}  {names}{more}"


def _next(alert: AlertFile, before: AlertFile | None, today: str, *, is_gone: bool) -> AlertFile | None:
    """Return the alert as it is now, or None for one that was over before anybody saw it."""
    if before is None:
        return None if is_gone else alert
    known = {(each.suite, each.workload, each.machine_class) for each in before.series}
    new = tuple(each for each in alert.series if (each.suite, each.workload, each.machine_class) not in known)
    merged = replace(before, series=(*before.series, *new))
    if is_gone and before.is_open:
        return replace(merged, state=AlertState.FIXED, closed=today)
    if not is_gone and not before.is_open:  # it was called fixed, and the newest code is slow
        return replace(merged, state=AlertState.DETECTED, closed="", until="")
    return merged


def _make(
    group: Sequence[Detection], codes: Mapping[int, Code], point_of: PointOf, today: str, present: Mapping[str, AlertFile]
) -> AlertFile:
    """Describe a group. One whose place is that of an open alert of its entry functions keeps that alert's id."""
    first = group[0]
    entries = tuple(sorted(frozenset().union(*(each.entries for each in group))))
    workloads = tuple(sorted({each.track.series.workload for each in group}))
    commits = {each.first.commit for each in group}
    same = (
        alert for alert in present.values()
        if alert.commit in commits and (set(alert.entries) & set(entries) or {s.workload for s in alert.series} & set(workloads))
    )  # fmt: skip
    known = next(same, None)
    return AlertFile(
        id=known.id if known else alert_id(first.first.commit, entries, workloads),
        state=AlertState.DETECTED,
        opened=today,
        commit=first.first.commit,
        last_good=first.last_good.commit,
        series=tuple(sorted((_series(each) for each in group), key=lambda s: (s.workload, s.machine_class))),
        entries=entries,
        changes=known.changes if known else tuple(_changes(group, codes, point_of)),
        evidence=tuple(dict.fromkeys(p.bundle for each in group for p in (each.last_good, each.first) if p.bundle)),
    )


def _series(each: Detection) -> AlertedSeries:
    return AlertedSeries(
        **{name: getattr(each.track.series, name) for name in ("suite", "workload", "machine_class")},
        percent=round(100 * math.expm1(each.finding.change), 4),
        standard_error=round(100 * each.finding.standard_error, 4),
        z=round(each.finding.z, 4),
    )


def _changes(group: Sequence[Detection], codes: Mapping[int, Code], point_of: PointOf) -> Iterator[str]:
    """Say what else changed: compiler, tools, readings, and files."""
    seen: set[str] = set()
    for each in group:
        good, bad = each.last_good, each.first
        places = range(each.finding.last_good + 1, each.finding.first + 1)
        lines = [
            *alerting.code_changes(codes.get(good.code_id or 0), codes.get(bad.code_id or 0)),
            *alerting.tool_changes(each.track.points[place] for place in places),
        ]
        before, after = (point_of(each, point.run) for point in (good, bad))
        lines += [f"{each.track.series.workload}: {line}" for line in alerting.reading_changes(before, after)]
        yield from (line for line in lines if line not in seen)
        seen.update(lines)
    with scratch_folder() as logs:
        files = git_diff.changed_lines(Path.cwd(), group[0].last_good.commit, group[0].first.commit, logs=logs)
    yield from (f"{visible(name)} +{added} -{removed}" for name, added, removed in files[:SHOWN_FILES])
    if len(files) > SHOWN_FILES:
        yield f"{len(files) - SHOWN_FILES} more files: git diff {group[0].last_good.commit[:12]} {group[0].first.commit[:12]}"


def _stored(alert: AlertFile, group: Sequence[Detection]) -> Alert:
    return Alert(
        **{name: getattr(alert, name) for name in ("owner", "reason", "until")},
        key=alert.id,
        state=alert.state.value,
        opened_at=_seconds(alert.opened) or 0,
        closed_at=_seconds(alert.closed),
        series=tuple({each.track.series.id: _alert_series(each) for each in reversed(group)}.values()),
    )


def _alert_series(each: Detection) -> AlertSeries:
    return AlertSeries(
        series=each.track.series.id,
        first=each.first.run,
        last_good=each.last_good.run,
        log_ratio=each.finding.change,
        standard_error=each.finding.standard_error,
    )


def _seconds(day: str) -> int | None:
    return int(dt.datetime.fromisoformat(day).replace(tzinfo=dt.UTC).timestamp()) if day else None


def _requests(detections: Sequence[Detection]) -> Iterator[tuple[str, str, int]]:
    for each in detections:
        if each.finding.kind is Kind.MEASURE_AGAIN:
            yield each.track.series.workload, each.track.points[each.finding.at].commit, each.finding.rounds
