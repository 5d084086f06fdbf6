"""``report.html``: one file, no script, no network. The verdict first, then every check, then what was measured."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator

from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.reading import Measured
from flashcore_ci.model.suite import Kind, Workload
from flashcore_ci.model.verdict import Report, Verdict
from flashcore_ci.report import formatting
from flashcore_ci.report.groups import Cluster, Section, clusters, sections
from flashcore_ci.report.html import machine, matrix, panels
from flashcore_ci.report.html.error_histogram import histogram
from flashcore_ci.report.html.markup import Markup, join, tag
from flashcore_ci.report.html.style import CSS

MOST_PANELS = 48
MOST_UNTIMED = 30
MOST_SHOWN = 50
"""Of a cluster of verdicts that are red for one reason; the matrix has all."""
POLICY = "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def render(report: Report, dossier: Dossier) -> str:
    """The page. Nothing that a kernel, a tool or a file name says can become markup in it."""
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
    body = tag(
        "body",
        tag("a", "Skip to the checks", href="#checks", class_="skip"),
        _header(report),
        *_body(report, dossier),
        _footer(report),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _header(report: Report) -> Markup:
    about = f"suite {report.suite}, exit code {report.exit_code}, judged as of {report.as_of}"
    verdict = tag(
        "div",
        tag("span", str(report.outcome), class_=f"badge {report.outcome}"),
        tag("h1", formatting.headline(report)),
        tag("p", about, class_="soft small"),
        *(tag("p", line, class_="soft small") for line in formatting.origins(report.verdicts)),
        class_=f"verdict {report.outcome}",
    )
    return tag("header", verdict, tag("nav", *_links(report), _theme(), aria_label="Sections"))


def _links(report: Report) -> Iterator[Markup]:
    names = {
        "red": "What is red",
        "checks": "Checks",
        "workloads": "Workloads",
        "findings": "Findings",
        "budgets": "Budgets",
        "from": "Provenance",
        "repeat": "Repeat it",
    }
    for anchor, name in names.items():
        if anchor != "red" or sections(report):
            yield tag("a", name, href=f"#{anchor}")


def _theme() -> Markup:
    choices = (("auto", "as the system"), ("light", "light"), ("dark", "dark"))
    boxes = (
        tag("label", tag("input", type="radio", name="theme", id=name, checked="" if name == "auto" else None), f" {text}")
        for name, text in choices
    )
    return tag("fieldset", tag("legend", "Colours"), *boxes)


def _body(report: Report, dossier: Dossier) -> Iterator[Markup]:
    shown = panels.chosen(report, dossier)[:MOST_PANELS]
    anchors = {workload.id: f"w{number}" for number, workload in enumerate(shown, start=1)}
    yield tag(
        "main",
        *_reds(report),
        _section("checks", "Checks", matrix.render(report, anchors)),
        _section("workloads", "Workloads", *_workloads(report, dossier, shown, anchors)),
        _section("findings", "Findings of sanitizers and compiler", machine.findings(report, dossier)),
        _section("budgets", "Register and shared-memory budgets", machine.budgets(report, dossier)),
        _section("from", "Where this is from", machine.provenance(report), *_remarks(report)),
        _section("repeat", "How to repeat this", machine.repeat(report, dossier)),
    )


def _section(anchor: str, title: str, *content: Markup | None) -> Markup:
    return tag("section", tag("h2", title, id=f"{anchor}-title"), *content, id=anchor, aria_labelledby=f"{anchor}-title")


def _reds(report: Report) -> Iterator[Markup]:
    """What blocks, at once; what does not, folded away."""
    found = sections(report)
    if found:
        yield _section("red", "What is red", *(_red(section) for section in found))


def _red(section: Section) -> Markup:
    title = f"{section.title} ({formatting.plural(len(section.verdicts), 'check')})"
    inner = join(map(_cluster, clusters(section.verdicts)))
    if any(verdict.blocks for verdict in section.verdicts):
        return join((tag("h3", title), inner))
    return tag("details", tag("summary", tag("b", title)), inner)


def _detail(verdict: Verdict) -> str:
    """What the row does not say: what happened; where that is the comparison itself, what the gate or the limit is for."""
    return verdict.why if verdict.reason.code in formatting.COMPARISONS else verdict.reason.message


def _cluster(cluster: Cluster) -> Markup:
    rows = (
        tag(
            "tr",
            tag("td", verdict.gate),
            tag("td", verdict.target, class_="mono"),
            tag("td", formatting.reading(verdict)),
            tag("td", formatting.limit(verdict)),
            tag("td", formatting.shorten(_detail(verdict), 500)),
        )
        for verdict in cluster.verdicts[:MOST_SHOWN]
    )
    head = (tag("th", name, scope="col") for name in ("gate", "target", "measured", "limit", "what happened, or why it matters"))
    left = len(cluster.verdicts) - MOST_SHOWN
    return join(
        (
            tag(
                "p",
                tag("span", str(cluster.outcome), class_=f"badge {matrix.style_of(cluster.verdicts[0])}"),
                f" {cluster.code}, {formatting.origin(cluster.origin)}",
            ),
            tag("p", tag("b", "Next: "), cluster.next_step) if cluster.next_step else None,
            tag(
                "div",
                tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows), class_="list reds"),
                class_="scroll",
                tabindex="0",
                role="region",
                aria_label=f"{cluster.outcome}: {cluster.code}",
            ),
            tag("p", f"… and {left} more; the table below has all.", class_="soft") if left > 0 else None,
        )
    )


def _workloads(report: Report, dossier: Dossier, shown: tuple[Workload, ...], anchors: dict[str, str]) -> Iterator[Markup]:
    roof = panels.roofline(dossier)
    if not dossier.workloads:
        yield tag("p", "No dossier lies beside this report: there is nothing to draw.")
    if roof is not None:
        yield roof.definition()
    for workload in shown:
        yield panels.render(workload, anchors[workload.id], report, dossier, roof)
    left = len(panels.chosen(report, dossier)) - len(shown)
    if left > 0:
        yield tag("p", f"{left} more timed workloads are in dossier.json.", class_="soft")
    yield from _untimed(dossier, [workload.id for workload in dossier.workloads if workload.id not in anchors])


def _untimed(dossier: Dossier, names: list[str]) -> Iterator[Markup]:
    """Errors of workloads without a panel, those nearest to what is allowed first."""
    seen = [found for name in names if (found := dossier.observation(Kind.CORRECTNESS, name)) and found.histograms]
    if not seen:
        return
    nearest = sorted(seen, key=_ratio, reverse=True)[:MOST_UNTIMED]
    boxes = (tag("div", tag("h4", found.target, class_="mono"), histogram(found, most=1)) for found in nearest)
    title = f"Errors of workloads that were not timed: the {len(nearest)} of {len(seen)} nearest to what is allowed"
    yield tag("details", tag("summary", title), tag("div", *boxes, class_="buckets"))


def _ratio(seen: Observation) -> float:
    ratio = seen.reading("error/ratio")
    return ratio.value if isinstance(ratio, Measured) else math.inf


def _remarks(report: Report) -> Iterator[Markup]:
    if report.notes:
        yield join((tag("h3", "Notes"), tag("ul", *(tag("li", formatting.shorten(note, 600)) for note in report.notes))))
    if report.waivers:
        lines = (f"{w.gate} on {w.target} until {w.expires}, {w.owner}: {w.reason}" for w in report.waivers)
        yield join((tag("h3", "Waivers"), tag("ul", *(tag("li", line) for line in lines))))
    if report.excluded:
        why: dict[tuple[str, str], list[str]] = {}
        for excluded in report.excluded:
            why.setdefault((excluded.gate, excluded.why), []).append(excluded.target)
        rows = (
            tag("tr", tag("td", gate), tag("td", reason), tag("td", str(len(targets)), class_="num"))
            for (gate, reason), targets in why.items()
        )
        head = tag("tr", *(tag("th", name, scope="col") for name in ("gate", "does not apply because", "targets")))
        yield tag(
            "details",
            tag("summary", f"Not applicable: {formatting.plural(len(report.excluded), 'pair')} of gate and target"),
            tag("table", tag("thead", head), tag("tbody", *rows), class_="list"),
        )


def _footer(report: Report) -> Markup:
    return tag(
        "footer",
        tag(
            "p",
            f"Made by flashcore-ci {report.tool} from report.json and dossier.json, which lie beside this file; it loads nothing and runs no script.",
            class_="soft small",
        ),
    )
