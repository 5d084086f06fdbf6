"""Render every verdict as gates by targets, one table per scope."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Scope
from flashcore_ci.model.verdict import Outcome, Report, Verdict
from flashcore_ci.report import formatting
from flashcore_ci.report.html import charts
from flashcore_ci.report.html.markup import Markup, join, scrolling, table, tag

SIGNS = {Outcome.PASS: "✓", Outcome.FAIL: "✗", Outcome.INCONCLUSIVE: "?", Outcome.WAIVED: "w"}
TITLES = {Scope.SUBJECT: "Subjects", Scope.ENTRY: "Entry functions", Scope.WORKLOAD: "Workloads"}
PLAIN = frozenset({"count", "abs", "ratio"})
WHOLE = 1e6
MOST_ROWS = 400
"""Rows per scope, to keep the page usable. Only plain passes are dropped."""


def render(report: Report, anchors: dict[str, str]) -> Markup:
    """Return the matrices. ``anchors`` maps a workload to its panel."""
    if not report.verdicts:
        return tag("p", "Nothing was judged.")
    return join((_legend(), *(_matrix(report, scope, anchors) for scope in (Scope.WORKLOAD, Scope.ENTRY, Scope.SUBJECT))))


def style_of(verdict: Verdict) -> str:
    """Return the class that colours a verdict."""
    if formatting.is_advisory(verdict):
        return "advisory"
    return "aside" if formatting.is_red(verdict) and verdict.deferred else str(verdict.outcome)


def _legend() -> Markup:
    signs = (tag("span", tag("b", sign), f" {outcome}", class_=str(outcome)) for outcome, sign in SIGNS.items())
    advisory = tag("span", tag("b", "(✗)"), " advisory", class_="advisory")
    deferred = tag("span", tag("b", "(?)"), " deferred", class_="aside")
    none = tag("span", "· does not apply", class_="soft")
    bar = tag("span", "bar: used share of the limit", class_="soft")
    box = tag("label", tag("input", type="checkbox", id="reds"), " hide rows with passes only", class_="filter")
    return join((tag("div", *signs, advisory, deferred, none, bar, class_="legend"), box))


def _matrix(report: Report, scope: Scope, anchors: dict[str, str]) -> Markup | None:
    verdicts = [verdict for verdict in report.verdicts if verdict.scope is scope]
    if not verdicts:
        return None
    gates = list(dict.fromkeys(verdict.gate for verdict in verdicts))
    rows: dict[str, dict[str, Verdict]] = {}
    for verdict in verdicts:
        rows.setdefault(verdict.target, {})[verdict.gate] = verdict
    kept = list(rows.items())
    if len(kept) > MOST_ROWS:
        kept = sorted(kept, key=lambda row: _calm(row[1].values()))[:MOST_ROWS]
    title, rest = TITLES[scope], len(rows) - len(kept)
    cells = table((title, *gates), (_row(target, row, gates, anchors) for target, row in kept), "matrix")
    more = tag("p", f"{rest} more rows, all passes, are in report.json.", class_="soft") if rest > 0 else None
    return join((tag("h3", f"{title} ({len(rows)})"), scrolling(f"{title}: gates by target", cells), more))


def _calm(verdicts: Iterable[Verdict]) -> bool:
    return all(verdict.outcome is Outcome.PASS for verdict in verdicts)


def _row(target: str, cells: dict[str, Verdict], gates: Sequence[str], anchors: dict[str, str]) -> Markup:
    anchor = anchors.get(target)
    name = tag("th", tag("a", target, href=f"#{anchor}") if anchor else target, scope="row", class_="mono")
    return tag("tr", name, *(_cell(cells.get(gate)) for gate in gates), class_="calm" if _calm(cells.values()) else None)


def _cell(verdict: Verdict | None) -> Markup:
    if verdict is None:
        return tag("td", tag("span", "·", aria_hidden="true"), tag("span", "does not apply", class_="hidden"), class_="soft")
    sign = SIGNS[verdict.outcome]
    is_aside = formatting.is_red(verdict) and not verdict.blocks
    measured = verdict.reading
    shown = _short(measured) if isinstance(measured, Measured) else str(verdict.reason.code)
    used = formatting.closeness(verdict)
    return tag(
        "td",
        tag("b", f"({sign})" if is_aside else sign, aria_hidden="true"),
        tag("span", formatting.label(verdict), class_="hidden"),
        tag("span", f" {shown}", title=formatting.with_limit(verdict)),
        charts.closeness(used) if used > 0 else None,
        class_=style_of(verdict),
    )


def _short(measured: Measured) -> str:
    value, unit = measured.value, measured.unit
    if unit in PLAIN and value.is_integer() and abs(value) < WHOLE:
        return f"{int(value):,}"
    return formatting.number(value, unit, digits=2 if unit == "abs" else 3)
