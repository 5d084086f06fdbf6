"""Use cases of alerts that need the history: open, extend and close the files from what the detector finds."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashcore_ci.adapters import clock, git_diff
from flashcore_ci.history import address, alerting, database, points, queries, writing
from flashcore_ci.history.alerting import Detection
from flashcore_ci.history.detection import Kind
from flashcore_ci.model.alerts import AlertedSeries, AlertFile, AlertState, alert_id
from flashcore_ci.model.history import Alert, AlertSeries, Code, Standing
from flashcore_ci.model.text import visible
from flashcore_ci.model.tracks import Track
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.suite.alerts import HASH, read_alerts, write_alert

SHOWN_FILES = 20


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
        groups = _groups(detections, present)
        nameless = [groups.pop(key)[0] for key, group in list(groups.items()) if not _is_commit(group[0].first.commit)]
        stored = {alert.key: alert for alert in queries.alerts(connection)}
        for known in present.values():
            group = groups.get(known.id, [])
            groups[known.id] = [*group, *_missing(known, group, stored.get(known.id), tracks, codes)]
        made = {
            key: _make(key, group, today, present[key].changes if key in present else tuple(_changes(connection, group, codes)))
            for key, group in groups.items()
            if group
        }
    lost = [each for each in present.values() if each.is_open and each.id not in made and name in {s.suite for s in each.series}]
    done: dict[str, list[AlertFile]] = {"new": [], "fixed": [], "open": [], "open, and not found in this history": lost}
    for alert in sorted(made.values(), key=lambda alert: alert.id not in present):
        before, answers = present.get(alert.id), {each.gone for each in groups[alert.id]}
        after = _next(alert, before, today, is_gone=answers == {True}, is_slow=False in answers)
        if after is None:
            continue
        if after != before:
            write_alert(suite, after)
        row = _stored(after, groups[alert.id], stored.get(alert.id))
        database.write(url, lambda c, row=row: writing.put_alert(c, row))  # type: ignore[misc]
        what = "new" if before is None else "fixed" if before.is_open and not after.is_open else "open"
        if after.is_open or what == "fixed":
            done[what].append(after)
    requests = tuple(_requests(detections))
    lines = (
        *(f"{what}: {line_of(alert)}" for what, each in done.items() for alert in each),
        *(f"no alert, for its first run names no commit: {visible(each.track.series.workload)}" for each in nameless),
        *(f"measure again: {workload} at {commit[:12]}, {rounds} rounds" for workload, commit, rounds in requests),
    )
    opened, closed, still = (tuple(alert.id for alert in done[what]) for what in ("new", "fixed", "open"))
    return Update(opened=opened, closed=closed, open=still, again=requests, lines=lines or ("nothing was found",))


def line_of(alert: AlertFile) -> str:
    """Write an alert in one line."""
    names = ", ".join(visible(each.workload) for each in alert.series[:3])
    more = f" and {len(alert.series) - 3} more" if len(alert.series) > 3 else ""  # noqa: PLR2004 - three names
    until = f" until {alert.until}" if alert.until else ""
    owner = visible(alert.owner) or "nobody yet"
    return f"{alert.id}  {alert.state:8}  {alert.percent:+.2f} %  {alert.opened}  {owner}{until}  {names}{more}"


def _next(alert: AlertFile, before: AlertFile | None, today: str, *, is_gone: bool, is_slow: bool) -> AlertFile | None:
    """Return the alert as it is now, or None for one that was over before anybody saw it."""
    if before is None:
        return None if is_gone else alert
    known = {(each.suite, each.workload, each.machine_class) for each in before.series}
    new = tuple(each for each in alert.series if (each.suite, each.workload, each.machine_class) not in known)
    merged = replace(before, series=(*before.series, *new))
    if is_gone and before.is_open:
        return replace(merged, state=AlertState.FIXED, closed=today)
    if is_slow and not before.is_open:  # it was called fixed, and the newest code is slow
        return replace(merged, state=AlertState.DETECTED, closed="", until="")
    return merged


def _missing(
    alert: AlertFile, found: Sequence[Detection], stored: Alert | None, tracks: Sequence[Track], codes: Mapping[int, Code]
) -> Iterator[Detection]:
    """Yield what an open alert says of other series: as stored, or else at the runs of its commit."""
    if not alert.is_open:
        return
    named = {(part.suite, part.workload, part.machine_class): part for part in alert.series if stored is None}
    parts = list(stored.series) if stored else []
    for track in tracks:
        part = named.get((track.series.suite, track.series.workload, track.series.machine_class))
        runs = (point.run for point in track.points if point.commit == alert.commit)
        if part is not None and (first := next(runs, None)) is not None:
            size, error = math.log1p(max(part.percent, -99.0) / 100), part.standard_error / 100
            parts.append(AlertSeries(series=track.series.id, first=first, last_good=None, log_ratio=size, standard_error=error))
    known = {each.track.series.id for each in found}
    yield from alerting.remembered([part for part in parts if part.series not in known], tracks, codes)


def _groups(detections: Sequence[Detection], present: Mapping[str, AlertFile]) -> dict[str, list[Detection]]:
    """Group slowdowns by the id of their alert. One at the place of an alert of its entry functions has that alert's id."""
    found: dict[str, list[Detection]] = {}
    for group in alerting.groups(each for each in detections if each.finding.kind is Kind.SLOWER):
        entries, workloads = _entries(group), sorted({each.track.series.workload for each in group})
        commits = {each.first.commit for each in group}
        same = (
            alert.id for alert in present.values()
            if alert.commit in commits and (set(alert.entries) & set(entries) or {s.workload for s in alert.series} & set(workloads))
        )  # fmt: skip
        key = next(same, None) or alert_id(group[0].first.commit, entries, tuple(workloads))
        found[key] = sorted([*found.get(key, ()), *group], key=lambda each: -abs(each.finding.z))
    return found


def _is_commit(text: str) -> bool:
    return re.match(HASH, text) is not None


def _entries(group: Sequence[Detection]) -> tuple[str, ...]:
    return tuple(sorted(frozenset().union(*(each.entries for each in group))))


def _make(key: str, group: Sequence[Detection], today: str, changes: tuple[str, ...]) -> AlertFile:
    """Describe a group."""
    return AlertFile(
        id=key,
        state=AlertState.DETECTED,
        opened=today,
        commit=group[0].first.commit,
        last_good=last_good if _is_commit(last_good := group[0].last_good.commit) else "",
        series=tuple(sorted((_series(each) for each in group), key=lambda s: (s.workload, s.machine_class))),
        entries=_entries(group),
        changes=changes,
        evidence=tuple(dict.fromkeys(p.bundle for each in group for p in (each.last_good, each.first) if p.bundle)),
    )


def _series(each: Detection) -> AlertedSeries:
    return AlertedSeries(
        **{name: getattr(each.track.series, name) for name in ("suite", "workload", "machine_class")},
        percent=round(100 * math.expm1(each.finding.change), 4),
        standard_error=round(100 * each.finding.standard_error, 4),
        z=round(min(each.finding.z, 1e6), 4),  # runs that do not scatter have an infinite one
    )


def _changes(connection: Any, group: Sequence[Detection], codes: Mapping[int, Code]) -> Iterator[str]:
    """Say what else changed: compiler, tools, readings, and files."""
    seen: set[str] = set()
    for each in group:
        good, bad = each.last_good, each.first
        places = range(each.finding.last_good + 1, each.finding.first + 1)
        lines = [
            *alerting.code_changes(codes.get(good.code_id or 0), codes.get(bad.code_id or 0)),
            *alerting.tool_changes(each.track.points[place] for place in places),
        ]
        both = (queries.points(connection, each.track.series.id, standings=queries.ALL, run=point.run) for point in (good, bad))
        before, after = (next(iter(found), None) for found in both)
        lines += [f"{each.track.series.workload}: {line}" for line in alerting.reading_changes(before, after)]
        yield from (line for line in lines if line not in seen)
        seen.update(lines)
    with scratch_folder() as logs:
        files = git_diff.changed_lines(Path.cwd(), group[0].last_good.commit, group[0].first.commit, logs=logs)
    yield from (f"{visible(name)} +{added} -{removed}" for name, added, removed in files[:SHOWN_FILES])
    if len(files) > SHOWN_FILES:
        yield f"{len(files) - SHOWN_FILES} more files: git diff {group[0].last_good.commit[:12]} {group[0].first.commit[:12]}"


def _stored(alert: AlertFile, group: Sequence[Detection], before: Alert | None) -> Alert:
    parts = {part.series: part for part in before.series} if before else {}
    return Alert(
        **{name: getattr(alert, name) for name in ("owner", "reason", "until")},
        key=alert.id,
        state=alert.state.value,
        opened_at=_seconds(alert.opened) or 0,
        closed_at=_seconds(alert.closed),
        series=tuple((parts | {each.track.series.id: _alert_series(each) for each in reversed(group)}).values()),
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
