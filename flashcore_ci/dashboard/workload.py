"""A workload over commits: the page, and the JSON file that its chart loads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from flashcore_ci.dashboard import overview, page, versions
from flashcore_ci.dashboard.changes import Change
from flashcore_ci.model.dashboard import Line, Snapshot
from flashcore_ci.model.history import OUTCOMES
from flashcore_ci.report.html.markup import Child, Markup, tag

MOST_ROWS = 50
MOST_VERSIONS = 20
SCALES = {"megacycles": "Cycles", "ms": "Time"}
HEAD = ("Commit", "Collected", "Value", "To the anchor", "Standard error", "Clock", "Verdict", "Run")


def render(line: Line, change: Change, snapshot: Snapshot) -> bytes:
    """Return the page of a workload."""
    series = line.series
    newest = line.dots[-1] if line.dots else None
    content = (
        tag("p", tag("a", "Overview", href="../index.html"), " / ", page.shown(series.suite), class_="soft"),
        tag("h1", page.shown(series.workload), class_="mono"),
        tag("p", page.badge(overview.TITLES[change.status], change.status.value), " ", change.why),
        page.facts(
            ("Newest", page.value(line, newest.value if newest else None)),
            ("Reached", page.rate(line, newest.ms if newest else None)),
            ("To the anchor", page.percent(newest.ratio if newest else None)),
            ("Change", overview.change_cell(change)),
            ("Runs", f"{line.total:,}"),
            ("Machine", page.shown(series.machine_class)),
        ),
        _chart(line),
        _alerts(line, snapshot),
        page.section("versions", "Versions of its code", versions.of_line(line, snapshot, MOST_VERSIONS)),
        page.section("points", f"The newest {min(MOST_ROWS, len(line.dots))} points", _table(line, snapshot)),
    )
    return page.render(f"w/{line.key}.html", series.workload, *content, charts=True, depth=1, now=snapshot.now)


def _chart(line: Line) -> Markup:
    names = [("ratio", "Ratio to the anchor")] if any(dot.ratio is not None for dot in line.dots) else []
    names += [("value", SCALES[line.series.scale])]
    names += [] if line.series.scale == "ms" else [("ms", "Time")]
    names += [("mhz", "Clock")]
    first = names[0][0]
    buttons = (
        tag("button", text, type="button", data_metric=name, aria_pressed="true" if name == first else "false")
        for name, text in names
    )
    ranges = (
        tag("button", text, type="button", data_newest=count, aria_pressed="false")
        for text, count in (("Newest 50", "50"), ("Newest 300", "300"), ("All", "0"))
    )
    older = line.total - len(line.dots) + line.sampled
    note = f"The oldest {line.sampled} points shown are samples of {older:,}. " if line.sampled else ""
    keys = "Arrow keys move between points, Enter opens the run. Drag to zoom, double-click to go back."
    groups = (tag("div", *inner, role="group", aria_label=name) for name, inner in (("Metric", buttons), ("Range", ranges)))
    label = "Chart of points over commits. The table below has the newest. Arrow keys read the points."
    about = {"role": "application", "aria_label": label, "aria_describedby": "chart-help", "tabindex": "0"}
    source = {"data_src": f"../data/series/{line.key}.json", "data_metric": first}
    return tag(
        "figure",
        tag("div", *groups, class_="tools"),
        tag("div", class_="chart", id="chart", **source, **about),
        tag("p", "Select a point to see its run.", id="point", role="status", class_="point"),
        tag("figcaption", f"{note}{keys}", id="chart-help"),
    )


def _alerts(line: Line, snapshot: Snapshot) -> Child:
    mine = [alert for alert in snapshot.alerts if any(part.line == line.key for part in alert.parts)]
    if not mine:
        return None
    rows = []
    for alert in mine:
        part = next(part for part in alert.parts if part.line == line.key)
        rows.append(
            (
                *(page.shown(alert.key), page.badge(page.shown(alert.state), "unproven")),
                page.run_link(snapshot.runs.get(part.first), "../"),
                f"{page.percent(part.log_ratio)} ± {200 * part.error:.2f}",
                *(page.shown(alert.owner) or "nobody yet", page.shown(alert.note or alert.reason, 300)),
            )
        )
    head = ("Alert", "State", "Since commit", "Size", "Owner", "What changed, or why")
    return page.section("alerts", f"Alerts ({len(mine)})", page.grid("Alerts", head, rows, numeric=(3,)))


def _table(line: Line, snapshot: Snapshot) -> Markup:
    return page.grid("Newest points", HEAD, _rows(line, snapshot), numeric=(2, 3, 4, 5))


def _rows(line: Line, snapshot: Snapshot) -> Iterator[page.Cells]:
    for dot in reversed(line.dots[-MOST_ROWS:]):
        run = snapshot.runs[dot.run]
        outcome = OUTCOMES[dot.outcome].value
        digest = run.digest[: page.SHORT]
        name, title = page.shown(run.commit.sha[: page.SHORT]) or "none", page.shown(run.commit.subject) or None
        yield (
            tag("a", name, href=f"#run={digest}", class_="mono", title=title),
            *(page.moment(run.collected_at), page.value(line, dot.value), page.percent(dot.ratio)),
            page.NONE if dot.error is None else f"{100 * dot.error:.3f} %",
            page.NONE if dot.mhz is None else f"{dot.mhz:,.0f} MHz",
            tag("span", outcome, class_=outcome),
            tag("a", digest, href=f"../compare.html#a={digest}", class_="mono"),
        )


def data(line: Line, snapshot: Snapshot) -> bytes:
    """Return the points in columns. Ratios and errors in millionths, values with six digits."""
    runs = [snapshot.runs[dot.run] for dot in line.dots]
    epochs = list(dict.fromkeys(dot.epoch for dot in line.dots))
    codes = {code: number for number, code in enumerate(dict.fromkeys(dot.code for dot in line.dots))}
    places = {dot.run: index for index, dot in enumerate(line.dots)}
    marks = [
        {"at": places[part.first], "ratio": _millionths(part.log_ratio)}
        | {name: page.shown(getattr(alert, name)) for name in ("key", "state")}
        for alert in snapshot.alerts
        for part in alert.parts
        if part.line == line.key and part.first in places
    ]
    content: dict[str, Any] = {
        "unit": page.UNITS[line.series.scale],
        "run": [run.digest[: page.SHORT] for run in runs],
        "commit": [page.shown(run.commit.sha[: page.SHORT]) for run in runs],
        "at": [run.collected_at for run in runs],
        "day": [run.commit.committed_at or run.collected_at for run in runs],
        "ratio": [_millionths(dot.ratio) for dot in line.dots],
        "error": [_millionths(dot.error) for dot in line.dots],
        **{name: [_digits(getattr(dot, name)) for dot in line.dots] for name in ("value", "ms", "mhz")},
        "outcome": "".join(str(dot.outcome) for dot in line.dots),
        "epoch": [epochs.index(dot.epoch) for dot in line.dots],
        "epochs": [_epoch(number, snapshot) for number in epochs],
        "code": [codes[dot.code] for dot in line.dots],
        "alerts": marks,
        "sampled": line.sampled,
        "detailed": [index for index, dot in enumerate(line.dots) if dot.run in set(snapshot.detailed)][:1],
    }
    return json.dumps(content, separators=(",", ":"), ensure_ascii=True).encode()


def _epoch(number: int | None, snapshot: Snapshot) -> str:
    epoch = None if number is None else snapshot.epochs.get(number)
    return "not timed" if epoch is None else page.shown(epoch.label)


def _millionths(number: float | None) -> int | None:
    return None if number is None else round(1e6 * number)


def _digits(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.6g}")
