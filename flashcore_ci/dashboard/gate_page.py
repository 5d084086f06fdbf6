"""The gate itself: how often it is inconclusive and why, how long it takes, re-runs, waivers and false alerts."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from flashcore_ci.dashboard import overview, page
from flashcore_ci.dashboard.changes import OPEN
from flashcore_ci.model.dashboard import AlertView, Snapshot
from flashcore_ci.model.history import RunRow
from flashcore_ci.model.verdict import Outcome
from flashcore_ci.report import formatting
from flashcore_ci.report.html.markup import Child, Markup, tag

WEEK = 7 * 86_400
FALSE = frozenset({"ignored", "false", "invalid"})
SOON = 30
"""Days before its end in which a waiver is shown as about to expire."""
UNTIL = re.compile(r"(?:waived|suppressed .*?) until (\d{4}-\d\d-\d\d) by (.{1,80}?): (.*)", re.DOTALL)
MOST = 20


def render(snapshot: Snapshot) -> bytes:
    """Return the page."""
    content = (
        tag("h1", headline(snapshot)),
        tag("p", "All runs of the last 12 weeks, of every branch.", class_="soft"),
        page.section("weeks", "Outcomes by week", page.grid("Weeks", WEEK_HEAD, _weeks(snapshot), numeric=range(1, 8))),
        page.section("reasons", "Why checks did not pass", _reasons(snapshot)),
        page.section("waivers", "Waivers", _waivers(snapshot)),
        page.section("stages", "Time by stage", _stages(snapshot)),
        page.section("repeats", "Commits that were run again", _repeats(snapshot)),
        page.section("false", "Alerts that were false", _false_alerts(snapshot)),
    )
    return page.render("gate.html", "The gate", *content, now=snapshot.now)


def headline(snapshot: Snapshot) -> str:
    """Say how often the gate could not decide."""
    runs = snapshot.recent
    unsure = sum(run.outcome is Outcome.INCONCLUSIVE for run in runs)
    return f"{share(unsure, len(runs))} of {formatting.plural(len(runs), 'run')} inconclusive" if runs else "No run in 12 weeks"


def share(part: int, whole: int) -> str:
    """Write a share in per cent."""
    return f"{100 * part / whole:.1f} %" if whole else page.NONE


WEEK_HEAD = ("Week of", "Runs", "Passed", "Waived", "Failed", "Inconclusive", "Share inconclusive", "Median time")


def _weeks(snapshot: Snapshot) -> Iterator[page.Cells]:
    weeks: dict[int, list[RunRow]] = defaultdict(list)
    for run in snapshot.recent:
        weeks[(run.collected_at + 3 * 86_400) // WEEK].append(run)  # the epoch began on a Thursday
    for week, runs in sorted(weeks.items(), reverse=True):
        counts = Counter(run.outcome for run in runs)
        numbers = [len(runs), *(counts[o] for o in (Outcome.PASS, Outcome.WAIVED, Outcome.FAIL, Outcome.INCONCLUSIVE))]
        time = f"{median(known):,.0f} s" if (known := [run.seconds for run in runs if run.seconds]) else page.NONE
        day = page.day(week * WEEK - 3 * 86_400)
        yield day, *(f"{number:,}" for number in numbers), share(counts[Outcome.INCONCLUSIVE], len(runs)), time


def _reasons(snapshot: Snapshot) -> Markup:
    if not snapshot.tallies:
        return tag("p", "Every check passed.")
    rows = (
        (
            page.mono(page.shown(tally.code)),
            tag("span", tally.outcome, class_=tally.outcome),
            page.shown(tally.gate),
            *(f"{tally.verdicts:,}", f"{tally.runs:,}"),
            page.run_link(snapshot.runs.get(tally.newest)),
        )
        for tally in sorted(snapshot.tallies, key=lambda t: (t.outcome != "INCONCLUSIVE", -t.verdicts))[:MOST]
    )
    return page.grid("Reasons", ("Reason", "Verdict", "Gate", "Checks", "Runs", "Newest run"), rows, numeric=(3, 4))


def waivers_of(snapshot: Snapshot) -> list[tuple[str, ...]]:
    """Return (last day, gate, target, owner, reason) of each waiver that counted in a run, the first to end first."""
    found: set[tuple[str, ...]] = set()
    for verdict in snapshot.verdicts:
        for note in _notes(verdict.record) if verdict.outcome is Outcome.WAIVED else ():
            if told := UNTIL.match(note):
                until, owner, reason = told.groups()
                names = map(page.shown, (verdict.gate, verdict.target, owner))
                found.add((until, *names, page.shown(reason, 200)))
    return sorted(found)


def _notes(record: str) -> list[str]:
    try:
        notes = json.loads(record)["notes"]
    except (ValueError, KeyError, TypeError):
        return []
    return [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []


def days_left(until: str, now: int) -> int:
    """Return the days until the last day."""
    try:
        return (dt.date.fromisoformat(until) - dt.datetime.fromtimestamp(now, dt.UTC).date()).days
    except ValueError:
        return -1


def _waivers(snapshot: Snapshot) -> Markup:
    waivers = waivers_of(snapshot)
    if not waivers:
        return tag("p", "No waiver counted in the newest runs.")
    rows = (
        (until, _left(days_left(until, snapshot.now)), gate, page.mono(target), owner, reason)
        for until, gate, target, owner, reason in waivers[:MOST]
    )
    return page.grid("Waivers", ("Until", "Left", "Gate", "Target", "Owner", "Reason"), rows)


def _left(days: int) -> Child:
    if days < 0:
        return tag("span", "expired", class_="FAIL")
    text = formatting.plural(days, "day")
    return tag("span", f"! {text}", class_="INCONCLUSIVE") if days <= SOON else text


def _stages(snapshot: Snapshot) -> Markup:
    times: dict[str, list[float]] = defaultdict(list)
    for run in snapshot.recent:
        for stage, seconds in snapshot.stages.get(run.id, {}).items():
            times[stage].append(seconds)
    if not times:
        return tag("p", "The stored runs do not say how long their stages took.")
    total = sum(median(values) for values in times.values())
    rows = (
        (
            *(page.shown(stage), f"{median(values):,.1f} s", share(round(1000 * median(values)), round(1000 * total))),
            *(f"{max(values):,.1f} s", f"{len(values):,}"),
        )
        for stage, values in sorted(times.items(), key=lambda pair: -median(pair[1]))
    )
    return page.grid("Stages", ("Stage", "Median", "Share", "Longest", "Runs"), rows, numeric=range(1, 5))


def _repeats(snapshot: Snapshot) -> Markup:
    groups: dict[tuple[str, str, str], list[RunRow]] = defaultdict(list)
    for run in snapshot.recent:
        if run.commit.sha and not run.dirty:
            groups[run.commit.sha, run.suite, run.machine.machine_class if run.machine else ""].append(run)
    again = sorted((runs for runs in groups.values() if len(runs) > 1), key=len, reverse=True)
    text = f"{formatting.plural(len(again), 'commit')} of {len(groups):,} ran more than once."
    if not again:
        return tag("p", text)
    rows = (
        (page.run_link(runs[0]), page.shown(runs[0].suite), f"{len(runs):,}", ", ".join(_outcomes(runs)[:6]))
        for runs in again[:MOST]
    )
    head = ("Commit", "Suite", "Runs", "Outcomes, the oldest first")
    return tag("div", tag("p", text), page.grid("Runs again", head, rows, numeric=(2,)))


def _outcomes(runs: Sequence[RunRow]) -> list[str]:
    return [run.outcome.value for run in sorted(runs, key=lambda run: run.collected_at)]


def _false_alerts(snapshot: Snapshot) -> Markup:
    closed = [alert for alert in snapshot.alerts if alert.state not in OPEN]
    false = [alert for alert in closed if alert.state in FALSE]
    if not closed:
        return tag("p", "No alert was closed yet.")
    text = f"{len(false)} of {formatting.plural(len(closed), 'closed alert')} ({share(len(false), len(closed))}) was ignored as false."
    return tag("div", tag("p", text), *_false_table(false, snapshot))


def _false_table(false: Sequence[AlertView], snapshot: Snapshot) -> Iterator[Markup]:
    names = {line.key: line for line in snapshot.lines}
    if false:
        rows = (overview.alert_row(alert, names, snapshot) for alert in false[:MOST])
        yield page.grid("False alerts", overview.ALERT_HEAD, rows, numeric=(3,))
