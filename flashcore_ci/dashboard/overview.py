"""The first page: what regressed, improved or is unproven, the most urgent first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from flashcore_ci.dashboard import changes, page
from flashcore_ci.dashboard.changes import Change, Status
from flashcore_ci.model.dashboard import AlertView, Line, Snapshot
from flashcore_ci.model.history import OUTCOMES, StoredVerdict
from flashcore_ci.report import formatting
from flashcore_ci.report.html.markup import Child, Markup, join, tag

SPARK_POINTS = 40
RETIRED = 60 * 86_400
"""Seconds after which a line that nothing measures is no longer judged."""
SIGNS = {Status.REGRESSED: "▲", Status.FAILED: "✕", Status.IMPROVED: "▼", Status.UNPROVEN: "?", Status.UNCHANGED: "="}
TITLES = {status: status.capitalize() for status in Status}
HEAD = ("Workload", "Trend", "Newest", "Reached", "Change", "In 30 days", "Why")
NUMBERS = (2, 3, 4, 5)


class Row(NamedTuple):
    """A line with what changed."""

    line: Line
    change: Change


def rows_of(snapshot: Snapshot) -> list[Row]:
    """Return every line that is still measured, the largest change first within a status."""
    times = {number: run.collected_at for number, run in snapshot.runs.items()}
    newest = min(snapshot.now, max((times.get(line.dots[-1].run, 0) for line in snapshot.lines if line.dots), default=0))
    current = [line for line in snapshot.lines if line.dots and newest - times.get(line.dots[-1].run, 0) < RETIRED]
    red = blocking(snapshot)
    rows = [
        Row(line, changes.of(line, snapshot.alerts, times, red.get((line.dots[-1].run, line.series.workload))))
        for line in current
    ]
    return sorted(rows, key=lambda row: (-abs(row.change.estimate or 0.0), row.line.series.workload))


def blocking(snapshot: Snapshot) -> dict[tuple[int, str], StoredVerdict]:
    """Return the worst verdict that blocks, by run and workload."""
    ordered = sorted(snapshot.verdicts, key=lambda verdict: OUTCOMES.index(verdict.outcome))
    return {(verdict.run, verdict.target): verdict for verdict in ordered if '"blocks":true' in verdict.record}


def render(snapshot: Snapshot) -> bytes:
    """Return the page."""
    rows = rows_of(snapshot)
    by_status: dict[Status, list[Row]] = defaultdict(list)
    for row in rows:
        by_status[row.change.status].append(row)
    sections = [_section(status, by_status[status]) for status in (Status.REGRESSED, Status.FAILED, Status.IMPROVED)]
    content = (
        tag("h1", headline(by_status)),
        tag("p", as_of(snapshot), class_="soft"),
        tag("ul", *(_count(status, len(by_status[status])) for status in Status), class_="counts"),
        _alerts(snapshot),
        *sections,
        _unproven(by_status[Status.UNPROVEN]),
        _unchanged(by_status[Status.UNCHANGED]),
    )
    return page.render("index.html", "Overview", *content, now=snapshot.now)


def headline(by_status: dict[Status, list[Row]]) -> str:
    """Say the most important thing in one line."""
    named = [
        (status, len(by_status[status])) for status in (Status.REGRESSED, Status.FAILED, Status.IMPROVED) if by_status[status]
    ]
    if not named:
        return "Nothing regressed" if any(by_status.values()) else "No run is stored yet"
    (first, count), *others = named
    return ", ".join([f"{formatting.plural(count, 'workload')} {first}", *(f"{number} {status}" for status, number in others)])


def as_of(snapshot: Snapshot) -> str:
    """Say what the pages know: the newest run, its age and how many there are."""
    runs = snapshot.recent or snapshot.runs.values()
    newest = max(
        runs, key=lambda run: (run.collected_at <= snapshot.now, run.collected_at, run.commit.committed_at or 0), default=None
    )
    if newest is None:
        return "Add one: flashcore-ci history add RUN"
    age = page.ago(max(0, snapshot.now - newest.collected_at))
    commit = page.shown(newest.commit.sha[: page.SHORT])
    return f"The newest of {formatting.plural(snapshot.total_runs, 'run')} is {age} old: commit {commit}, {page.shown(newest.commit.subject, 80)}"


def _count(status: Status, count: int) -> Markup:
    inner = (tag("b", f"{count:,}"), " ", TITLES[status])
    return tag("li", tag("a", *inner, href=f"#{status}", class_=status.value if count else "none"))


def _alerts(snapshot: Snapshot) -> Child:
    current = [alert for alert in snapshot.alerts if alert.state in changes.OPEN]
    if not current:
        return None
    names = {line.key: line for line in snapshot.lines}
    rows = (alert_row(alert, names, snapshot) for alert in current)
    return page.section("alerts", f"Open alerts ({len(current)})", page.grid("Open alerts", ALERT_HEAD, rows, numeric=(3,)))


ALERT_HEAD = ("Alert", "State", "Since commit", "Size", "Workloads", "Owner", "Open for")


def alert_row(alert: AlertView, names: dict[str, Line], snapshot: Snapshot) -> page.Cells:
    """Return an alert in a row of a table."""
    known = [part for part in alert.parts if part.line in names]
    largest = max(known, key=lambda part: abs(part.log_ratio), default=None)
    link: Child = page.shown(alert.key)
    if largest is not None:
        run = snapshot.runs.get(largest.first)
        anchor = f"#run={run.digest[: page.SHORT]}" if run else ""
        link = tag("a", page.shown(alert.key), href=f"w/{largest.line}.html{anchor}")
    return (
        link,
        page.badge(page.shown(alert.state), "unproven"),
        page.run_link(snapshot.runs.get(largest.first) if largest else None),
        page.percent(largest.log_ratio if largest else None),
        formatting.plural(len(alert.parts), "workload"),
        page.shown(alert.owner) or "nobody yet",
        page.ago(max(0, (alert.closed_at or snapshot.now) - alert.opened_at)),
    )


def _section(status: Status, rows: Sequence[Row]) -> Child:
    if not rows:
        return None
    return page.section(status.value, f"{TITLES[status]} ({len(rows)})", _table(TITLES[status], rows))


def _unproven(rows: Sequence[Row]) -> Child:
    """Group by reason: one broken night must not fill the page."""
    if not rows:
        return None
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.change.why].append(row)
    parts = (
        page.folded(f"{formatting.plural(len(group), 'workload')}: {why}", _table(why, group))
        for why, group in sorted(groups.items(), key=lambda pair: -len(pair[1]))
    )
    return page.section(Status.UNPROVEN, f"Unproven ({len(rows)})", *parts)


def _unchanged(rows: Sequence[Row]) -> Child:
    if not rows:
        return None
    table = _table("Unchanged", sorted(rows, key=lambda row: row.line.series.workload))
    return page.section(
        Status.UNCHANGED, f"Unchanged ({len(rows)})", page.folded("Show them", table, is_open=len(rows) <= SPARK_POINTS)
    )


def _table(label: str, rows: Sequence[Row]) -> Markup:
    return page.grid(label, HEAD, _rows(rows), numeric=NUMBERS, style="lines")


def _rows(rows: Sequence[Row]) -> Iterator[page.Cells]:
    for line, change in rows:
        newest = line.dots[-1]
        levels = [changes.level(line, dot) for dot in line.dots[-SPARK_POINTS:]]
        verdict = OUTCOMES[newest.outcome].value
        yield (
            page.link_of(line),
            page.sparkline(levels, f"Trend of the newest {len(levels)} runs"),
            page.value(line, newest.value),
            page.rate(line, newest.ms),
            change_cell(change),
            page.percent(change.month),
            join((tag("span", verdict, class_=f"hidden {verdict}"), change.why)),
        )


def change_cell(change: Change) -> Markup:
    """Write the change with its interval, and a sign that does not need colour."""
    if change.estimate is None:
        return tag("span", page.NONE, class_="soft")
    half = "" if change.half_width is None else f" ± {100 * change.half_width:.2f}"
    quiet = change.status in {Status.UNCHANGED, Status.UNPROVEN}
    style = "soft" if quiet else change.status.value
    sign = "" if quiet else f"{SIGNS[change.status]} "
    return tag("span", f"{sign}{page.percent(change.estimate)}{half}", class_=style)
