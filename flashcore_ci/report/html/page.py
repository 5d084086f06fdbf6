"""Render ``report.html``: the verdict, every check, then the measurements."""

from __future__ import annotations

import base64
import hashlib
import math
from collections import Counter
from collections.abc import Iterator

from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind, Workload
from flashcore_ci.model.verdict import Outcome, Report
from flashcore_ci.report import formatting
from flashcore_ci.report.groups import Cluster, Section, clusters, passes_by_kind, sections
from flashcore_ci.report.html import details, matrix, panels
from flashcore_ci.report.html.error_histogram import histogram
from flashcore_ci.report.html.markup import Markup, join, prose, scrolling, table, tag
from flashcore_ci.report.html.style import CSS

MOST_PANELS = 72
MOST_UNTIMED = 30
MOST_SHOWN = 50
"""Rows per reason. The matrix has all."""
POLICY = "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def render(report: Report, dossier: Dossier) -> str:
    """Return the page. Untrusted text stays text."""
    digest = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode("ascii")
    title = f"{report.outcome}: {report.suite}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY.format(digest=digest)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", formatting.shorten(title, 100)),
        tag("style", Markup(CSS)),
    )
    skip = tag("a", "Skip to the checks", href="#checks", class_="skip")
    body = tag("body", skip, _header(report), _main(report, dossier), _footer(report))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _header(report: Report) -> Markup:
    commits = formatting.commits(report)
    about = f"{commits[0].upper()}{commits[1:]}. Suite {report.suite}, exit code {report.exit_code}, judged as of {report.as_of}."
    verdict = tag(
        "div",
        tag("span", str(report.outcome), class_=f"badge {report.outcome}"),
        tag("h1", prose(formatting.headline(report))),
        tag("p", formatting.evidence_summary(report)) if report.verdicts else None,
        tag("p", about, class_="small"),
        tag("ul", *_kinds(report), class_="kinds") if report.outcome is Outcome.PASS and report.verdicts else None,
        class_=f"verdict {report.outcome}",
    )
    return tag("header", verdict, tag("nav", *_links(report), _theme(), aria_label="Sections"))


def _kinds(report: Report) -> Iterator[Markup]:
    for kind, passed, total in passes_by_kind(report):
        mark, style = ("✓ ", "PASS") if passed == total else ("· ", "soft")
        yield tag("li", tag("b", mark), f"{kind} {passed:,} of {total:,}", class_=style)


def _links(report: Report) -> Iterator[Markup]:
    names = {
        **{section.anchor: section.title for section in sections(report, urgent=True)},
        "checks": "Checks",
        **{section.anchor: section.title for section in sections(report, urgent=False)},
        "workloads": "Workloads",
        "findings": "Findings",
        "budgets": "Registers and shared memory",
        "from": "Provenance",
        "repeat": "Repeat",
    }
    for anchor, name in names.items():
        yield tag("a", name, href=f"#{anchor}")


def _theme() -> Markup:
    choices = (("auto", "system"), ("light", "light"), ("dark", "dark"))
    checked = {"auto": ""}
    boxes = ((tag("input", type="radio", name="theme", id=name, checked=checked.get(name)), f" {text}") for name, text in choices)
    return tag("fieldset", tag("legend", "Colours"), *(tag("label", *box) for box in boxes))


def _main(report: Report, dossier: Dossier) -> Markup:
    shown = panels.chosen(report, dossier)[:MOST_PANELS]
    anchors = {workload.id: f"w{number}" for number, workload in enumerate(shown, start=1)}
    return tag(
        "main",
        *map(_red, sections(report, urgent=True)),
        _section("checks", "Checks", matrix.render(report, anchors)),
        *map(_red, sections(report, urgent=False)),
        _section("workloads", "Workloads", *_workloads(report, dossier, shown, anchors)),
        _section("findings", "Sanitizer and compiler findings", details.findings(report, dossier)),
        _section("budgets", "Registers and shared memory", details.budgets(report, dossier)),
        _section("from", "Provenance", details.provenance(report), *_remarks(report)),
        _section("repeat", "How to repeat this", details.repeat(report, dossier)),
    )


def _section(anchor: str, title: str, *content: Markup | None) -> Markup:
    return tag("section", tag("h2", title, id=f"{anchor}-title"), *content, id=anchor, aria_labelledby=f"{anchor}-title")


def _red(section: Section) -> Markup:
    title = f"{section.title} ({formatting.plural(len(section.verdicts), 'check')})"
    inner = join(map(_cluster, clusters(section.verdicts)))
    if section.is_urgent:
        return _section(section.anchor, title, inner)
    gates = Counter(verdict.gate for verdict in section.verdicts)
    summary = ", ".join(f"{gate} {count}" for gate, count in gates.items())
    return _section(section.anchor, title, tag("details", tag("summary", summary, class_=section.anchor), inner))


def _cluster(cluster: Cluster) -> Markup:
    rows = (
        tag(
            "tr",
            tag("td", verdict.gate),
            tag("td", verdict.target, class_="mono"),
            tag("td", formatting.reading(verdict)),
            tag("td", formatting.limit(verdict)),
            tag("td", prose(formatting.shorten(formatting.detail(verdict), 500))),
        )
        for verdict in cluster.verdicts[:MOST_SHOWN]
    )
    head = ("gate", "target", "measured", "limit", "what happened, or why it matters")
    badge = tag("span", str(cluster.outcome), class_=f"badge {matrix.style_of(cluster.verdicts[0])}")
    rest = len(cluster.verdicts) - MOST_SHOWN
    return join(
        (
            tag("p", badge, f" {cluster.code}, {formatting.origin(cluster.origin)}"),
            tag("p", tag("b", "Next: "), prose(cluster.next_step)) if cluster.next_step else None,
            scrolling(f"{cluster.outcome}: {cluster.code}", table(head, rows, "list reds")),
            tag("p", f"… and {rest} more. The table of checks has all.", class_="soft") if rest > 0 else None,
        )
    )


def _workloads(report: Report, dossier: Dossier, shown: tuple[Workload, ...], anchors: dict[str, str]) -> Iterator[Markup]:
    roof = panels.roofline(dossier)
    if not dossier.workloads:
        yield tag("p", "There is no dossier next to this report, so nothing can be drawn.")
    if roof is not None:
        yield roof.definition()
    for workload in shown:
        yield panels.render(workload, anchors[workload.id], report, dossier, roof)
    rest = len(panels.chosen(report, dossier)) - len(shown)
    if rest > 0:
        yield tag("p", f"{rest} more timed workloads are in dossier.json.", class_="soft")
    yield from _untimed(dossier, [workload.id for workload in dossier.workloads if workload.id not in anchors])


def _untimed(dossier: Dossier, names: list[str]) -> Iterator[Markup]:
    seen = [found for name in names if (found := dossier.observation(Kind.CORRECTNESS, name)) and found.histograms]
    if not seen:
        return
    nearest = sorted(seen, key=_ratio, reverse=True)[:MOST_UNTIMED]
    boxes = (tag("div", tag("h4", found.target, class_="mono"), histogram(found, most=1)) for found in nearest)
    title = f"Errors of workloads that were not timed: the {len(nearest)} of {len(seen)} nearest to their limit"
    yield tag("details", tag("summary", title), tag("div", *boxes, class_="buckets"))


def _ratio(seen: Observation) -> float:
    ratio = seen.reading("error/ratio")
    return ratio.value if isinstance(ratio, Measured) else math.inf


def _remarks(report: Report) -> Iterator[Markup]:
    if report.notes:
        yield join((tag("h3", "Notes"), tag("ul", *(tag("li", prose(formatting.shorten(note, 600))) for note in report.notes))))
    if report.waivers:
        lines = (prose(f"{w.gate} on {w.target} until {w.expires}, {w.owner}: {w.reason}") for w in report.waivers)
        yield join((tag("h3", "Waivers"), tag("ul", *(tag("li", line) for line in lines))))
    if report.excluded:
        why = Counter((excluded.gate, excluded.why) for excluded in report.excluded)
        cells = ((gate, prose(reason), str(count)) for (gate, reason), count in why.items())
        rows = (tag("tr", tag("td", gate), tag("td", reason), tag("td", count, class_="num")) for gate, reason, count in cells)
        title = f"Not applicable: {formatting.plural(len(report.excluded), 'pair')} of gate and target"
        yield tag("details", tag("summary", title), table(("gate", "does not apply because", "targets"), rows))


def _footer(report: Report) -> Markup:
    made = f"Made by flashcore-ci {report.tool} from report.json and dossier.json in the same folder."
    return tag("footer", tag("p", f"{made} This page loads nothing and runs no script.", class_="soft small"))
