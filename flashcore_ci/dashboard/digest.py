"""The weekly digest in Markdown."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from flashcore_ci.dashboard import changes, gate_page, overview, page
from flashcore_ci.dashboard.changes import Status
from flashcore_ci.model.dashboard import Snapshot
from flashcore_ci.model.verdict import Outcome
from flashcore_ci.report import formatting

SPECIAL = re.compile(r"([\\`*_{}\[\]()#.!|<>~@&:/$])")
MOST = 10


def render(snapshot: Snapshot, days: int) -> str:
    """Return the digest of the last ``days`` days."""
    return "\n".join(_lines(snapshot, days)) + "\n"


def _lines(snapshot: Snapshot, days: int) -> Iterator[str]:
    since = snapshot.now - days * 86_400
    rows = overview.rows_of(snapshot)
    by_status: dict[Status, list[overview.Row]] = defaultdict(list)
    for row in rows:
        by_status[row.change.status].append(row)
    yield f"# {overview.headline(by_status)}"
    yield f"\n{page.day(since)} to {page.day(snapshot.now)}. {escaped(overview.as_of(snapshot))}."
    for status in (Status.REGRESSED, Status.FAILED, Status.IMPROVED, Status.UNPROVEN):
        yield from _table(status, by_status[status])
    yield from _alerts(snapshot, since)
    yield from _versions(snapshot, since)
    yield from _gate(snapshot, since)


def _table(status: Status, rows: list[overview.Row]) -> Iterator[str]:
    if not rows:
        return
    yield f"\n## {overview.TITLES[status]} ({len(rows)})\n\n| Workload | Newest | Change | Why |\n| --- | --- | --- | --- |"
    for line, change in rows[:MOST]:
        half = "" if change.half_width is None else f" ± {100 * change.half_width:.2f}"
        yield f"| {escaped(line.series.workload)} | {page.value(line, line.dots[-1].value)} | {page.percent(change.estimate)}{half} | {escaped(change.why)} |"
    if len(rows) > MOST:
        yield f"\n{len(rows) - MOST} more are on the dashboard."


def _alerts(snapshot: Snapshot, since: int) -> Iterator[str]:
    opened = [alert for alert in snapshot.alerts if alert.opened_at >= since]
    closed = [alert for alert in snapshot.alerts if alert.closed_at is not None and alert.closed_at >= since]
    current = [alert for alert in snapshot.alerts if alert.state in changes.OPEN]
    yield f"\n## Alerts\n\n{len(opened)} opened, {len(closed)} closed, {len(current)} open.\n"
    for alert in current[:MOST]:
        size = max((part.log_ratio for part in alert.parts), key=abs, default=None)
        owner = escaped(alert.owner) or "nobody yet"
        yield f"- {escaped(alert.key)}: {page.percent(size)}, {escaped(alert.state)}, {owner}, open for {page.ago(max(0, snapshot.now - alert.opened_at))}"


def _versions(snapshot: Snapshot, since: int) -> Iterator[str]:
    first = {run.id for run in snapshot.runs.values() if run.collected_at >= since}
    changed = [line for line in snapshot.lines if len(line.versions) > 1 and line.versions[-1].first in first]
    yield f"\n## Code\n\n{formatting.plural(len(changed), 'workload')} got new code."


def _gate(snapshot: Snapshot, since: int) -> Iterator[str]:
    runs = [run for run in snapshot.recent if run.collected_at >= since]
    counts = Counter(run.outcome for run in runs)
    unsure = gate_page.share(counts[Outcome.INCONCLUSIVE], len(runs))
    yield f"\n## The gate\n\n{formatting.plural(len(runs), 'run')}, {counts[Outcome.FAIL]} failed, {counts[Outcome.INCONCLUSIVE]} inconclusive ({unsure}).\n"
    for until, gate, target, owner, _ in gate_page.waivers_of(snapshot):
        if gate_page.days_left(until, snapshot.now) <= gate_page.SOON:
            yield f"- The waiver of {escaped(gate)} on {escaped(target)} ends on {until}. Owner: {escaped(owner)}"


def escaped(text: str) -> str:
    """Return text from outside as text of Markdown, in one line."""
    return SPECIAL.sub(r"\\\1", page.shown(text, 200))
