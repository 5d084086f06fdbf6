"""Read what the dashboard shows from the history. The only module that knows both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flashcore_ci.history import queries, selection
from flashcore_ci.model.alerts import AlertFile
from flashcore_ci.model.dashboard import Line, RunKey, Snapshot
from flashcore_ci.model.history import Series, Standing
from flashcore_ci.model.identity import digest_of
from flashcore_ci.run import dashboard_alerts

NEWEST = 1000
"""Points of a series that are shown in full."""
SAMPLES = 300
"""Older points that are shown."""
DETAILED = 200
"""Runs that have a page of their own, and those of alerts and the newest of each line."""
VERSIONS = 30
LATEST = 20
"""Runs that say how much work a call is."""
WEEKS = 12 * 7 * 86_400
SHOWN = frozenset({Standing.PROTECTED.value, Standing.REVIEWED.value})


def read(connection: Any, now: int, alert_files: Sequence[AlertFile] = ()) -> Snapshot:
    """Read everything that the pages show."""
    keys = selection.run_keys(connection)
    groups = _groups(keys)
    lines, versions = [], []
    for series in queries.series(connection):
        group = groups.get((series.suite, series.machine_class), [])
        if len(group) > NEWEST:  # fewer are all shown, with or without a point
            present = selection.runs_of(connection, series)
            group = [run for run in group if run in present]
        chosen = _chosen(group)
        dots = selection.dots(connection, series, chosen)
        found = selection.versions(connection, dots)[-VERSIONS:]
        versions += found
        flops, moved = selection.work(connection, series, chosen[-LATEST:])
        older = set(chosen[:-NEWEST])
        sampled = sum(dot.run in older for dot in dots)
        total = len(group) if sampled else len(dots)
        line = Line(key=key_of(series), series=series, dots=tuple(dots), total=total, sampled=sampled, versions=tuple(found))
        lines.append(replace(line, flops=flops, bytes=moved))
    recent = [key.id for key in keys if key.collected_at >= now - WEEKS]
    tallies = selection.tallies(connection, now - WEEKS)
    keys_of_lines = {line.series.id: line.key for line in lines}
    stored = [dashboard_alerts.of_store(alert, keys_of_lines) for alert in queries.alerts(connection)]
    named = {dot.run for line in lines for dot in line.dots} | {version.first for version in versions} | set(recent)
    named |= {tally.newest for tally in tallies} | {part.first for alert in stored for part in alert.parts}
    runs = {run.id: run for run in queries.runs(connection, ids=named)}
    alerts = dashboard_alerts.join(stored, [dashboard_alerts.of_file(alert, lines, runs) for alert in alert_files])
    newest = sorted(keys, key=lambda key: key.collected_at)[: -DETAILED - 1 : -1]
    alarmed = [part.first for alert in alerts for part in alert.parts if part.first in runs]
    judged = [line.dots[-1].run for line in lines if line.dots]
    detailed = tuple(dict.fromkeys([*(key.id for key in newest if key.id in runs), *judged, *alarmed]))
    return Snapshot(
        now=now,
        total_runs=len(keys),
        lines=tuple(lines),
        runs=runs,
        recent=tuple(runs[number] for number in recent if number in runs),
        detailed=detailed,
        machines=queries.machines(connection),
        epochs=queries.epochs(connection),
        codes=queries.codes(connection, {version.code for version in versions}),
        verdicts=queries.verdicts(connection, detailed),
        tallies=tuple(tallies),
        alerts=tuple(alerts),
        stages=selection.stages(connection, recent),
    )


def key_of(series: Series) -> str:
    """Name a series in addresses: the same in every database, and nothing from outside in it."""
    return digest_of("line", series.suite, series.workload, series.question, series.machine_class)[:12]


def _groups(keys: Sequence[RunKey]) -> dict[tuple[str, str], list[int]]:
    """Group runs by suite and class of machines. Runs of pull requests are shown where there are no others."""
    found: dict[tuple[str, str], list[RunKey]] = {}
    for key in keys:
        found.setdefault((key.suite, key.machine_class), []).append(key)
    return {
        group: [key.id for key in members if key.standing in SHOWN] or [key.id for key in members]
        for group, members in found.items()
    }


def _chosen(group: Sequence[int]) -> list[int]:
    """Return the newest runs, and before them one of every so many."""
    older, newest = group[:-NEWEST], group[-NEWEST:]
    step = -(-len(older) // SAMPLES) or 1
    return [*older[::step], *newest]
