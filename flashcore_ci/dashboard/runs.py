"""Two runs side by side: the page, the list of runs, and one JSON file per run."""

from __future__ import annotations

import json
from typing import Any

from flashcore_ci.dashboard import page
from flashcore_ci.model.dashboard import Snapshot
from flashcore_ci.model.history import OUTCOMES, RunRow
from flashcore_ci.report.html.markup import tag

MOST_VERDICTS = 200
SIDES = {"a": "Run A", "b": "Run B"}


def render(snapshot: Snapshot) -> bytes:
    """Return the page. The script fills it from the addresses' ``#a=DIGEST&b=DIGEST``."""
    choices = (
        tag("p", tag("label", text, for_=f"run-{side}"), tag("select", id=f"run-{side}"), class_="choice")
        for side, text in SIDES.items()
    )
    content = (
        tag("h1", "Two runs side by side"),
        tag("div", *choices, class_="choices"),
        tag("p", "Choose a run. The address keeps the choice.", id="compared", role="status"),
        tag("div", id="comparison"),
        tag("noscript", tag("p", "This page needs its script. The other pages show their tables without it.")),
    )
    return page.render("compare.html", "Two runs side by side", *content, now=snapshot.now)


def listed(snapshot: Snapshot) -> bytes:
    """Return the runs that can be chosen, the newest first."""
    runs = map(snapshot.runs.__getitem__, snapshot.detailed)
    first = ((run, run.digest[: page.SHORT], page.shown(run.commit.sha[: page.SHORT])) for run in runs)
    return _json([[*names, run.collected_at, run.outcome.value, page.shown(run.suite, 30)] for run, *names in first])


def path(run: RunRow) -> str:
    """Return the path of a run's file."""
    return f"data/run/{run.digest[: page.SHORT]}.json"


def data(snapshot: Snapshot) -> dict[str, bytes]:
    """Return a file per run that has one."""
    points: dict[int, list[list[Any]]] = {number: [] for number in snapshot.detailed}
    for line in snapshot.lines:
        for dot in line.dots:
            if dot.run in points:
                name = page.shown(line.series.workload)
                outcome = OUTCOMES[dot.outcome].value
                points[dot.run].append([line.key, name, page.UNITS[line.series.scale], dot.value, dot.std, dot.ratio, outcome])
    red: dict[int, list[list[str]]] = {number: [] for number in snapshot.detailed}
    for verdict in snapshot.verdicts:
        if verdict.run in red and len(red[verdict.run]) < MOST_VERDICTS:
            texts = (verdict.gate, verdict.target, verdict.outcome.value, verdict.code, verdict.message)
            red[verdict.run].append([page.shown(text, 300) for text in texts])
    return {path(snapshot.runs[n]): _run(snapshot.runs[n], points[n], red[n]) for n in snapshot.detailed}


def _run(run: RunRow, points: list[list[Any]], red: list[list[str]]) -> bytes:
    about = {
        "Commit": run.commit.sha + (" with uncommitted changes" if run.dirty else ""),
        "Subject": run.commit.subject,
        "Branch": run.branch or "unknown",
        "Collected": page.moment(run.collected_at),
        "Verdict": run.headline or run.outcome.value,
        "Standing": run.standing.value,
        "Machine": run.machine.name if run.machine else "no GPU",
        "Driver": run.driver or "unknown",
        "Suite": run.suite,
        "Evidence": run.digest,
        "Bundle": run.bundle or "unknown",
    }
    content = {
        "about": [[name, page.shown(text, 300)] for name, text in about.items()],
        "tools": [[page.shown(name), page.shown(version)] for name, version in run.tools],
        "points": points,
        "verdicts": red,
    }
    return _json(content)


def _json(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=True).encode()
