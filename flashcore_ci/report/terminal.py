"""Render the report for a terminal."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from flashcore_ci.model.reading import Measured
from flashcore_ci.model.verdict import Outcome, Report, Verdict
from flashcore_ci.report import formatting
from flashcore_ci.report.groups import COLUMNS, Cluster, Section, clusters, passes_by_kind, sections, tallies

MOST_ROWS = 12
MOST_ROWS_WITHOUT_READING = 4
MOST_FINDINGS = 5
MOST_NOTES = 3
NARROWEST = 40
ROOM_FOR_CLOSEST = 100

STYLES = {Outcome.PASS: "green", Outcome.FAIL: "bold red", Outcome.INCONCLUSIVE: "bold yellow", Outcome.WAIVED: "cyan"}
ADVISORY = "magenta"
TITLES = dict(zip(COLUMNS, ("pass", "fail", "inconcl", "waived", "advis", "defer"), strict=True))


def render(report: Report, width: int, color: bool) -> str:
    """Return the report in at most ``width`` columns (at least 40)."""
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=max(width, NARROWEST),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
    _headline(console, report)
    for section in sections(report, urgent=True):
        _section(console, section)
    _counts(console, report)
    for section in sections(report, urgent=False):
        _section(console, section)
    _footer(console, report)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _headline(console: Console, report: Report) -> None:
    style = STYLES[report.outcome]
    title = f" {formatting.plain(formatting.headline(report))}"
    badge = (f" {report.outcome} ", f"reverse {style}")
    console.print(Text.assemble(badge, (title, style if report.outcome is Outcome.PASS else "")))
    if report.verdicts:
        console.print(Text(formatting.evidence_summary(report)))
    about = f"suite {formatting.printable(report.suite)}, {formatting.commits(report)}, exit code {report.exit_code}"
    console.print(Text(about, style="dim"))
    if report.outcome is Outcome.PASS:
        console.print()
        for kind, passed, total in passes_by_kind(report):
            mark = "✓" if passed == total else "·"
            console.print(Text(f" {mark} {kind:<12} {passed:>5,} of {total:,} passed", style=style if passed == total else ""))


def _section(console: Console, section: Section) -> None:
    console.print()
    style = f"bold {ADVISORY}" if section.anchor == "advisory" else "bold"
    console.print(Text(f"{section.title.upper()} ({formatting.plural(len(section.verdicts), 'check')})", style=style))
    for cluster in clusters(section.verdicts):
        _cluster(console, cluster)


def _cluster(console: Console, cluster: Cluster) -> None:
    heading = Text.assemble(
        (str(cluster.outcome), ADVISORY if formatting.is_advisory(cluster.verdicts[0]) else STYLES[cluster.outcome]),
        f" {cluster.code}",
        (f" · {formatting.printable(formatting.origin(cluster.origin))}", "dim"),
    )
    _indented(console, heading, 2)
    measured = any(isinstance(verdict.reading, Measured) for verdict in cluster.verdicts)
    most = MOST_ROWS if measured else MOST_ROWS_WITHOUT_READING
    shown: set[str] = set()
    for verdict in cluster.verdicts[:most]:
        _row(console, verdict)
        for detail, style in _details(verdict):
            gist = detail.replace(verdict.target, "").replace(verdict.evidence, "")
            if gist and gist not in shown:
                shown.add(gist)
                _indented(console, Text(detail, style=style), 6)
    rest = cluster.verdicts[most:]
    if rest:
        _indented(console, Text(f"… and {len(rest)} more: {_by_gate(rest)} (all are in summary.md)"), 4)
    if cluster.next_step:
        _indented(console, Text.assemble(("next: ", "bold"), formatting.plain(cluster.next_step)), 4)


def _row(console: Console, verdict: Verdict) -> None:
    name = f"{formatting.printable(verdict.gate)}  {formatting.printable(verdict.target)}"
    numbers = formatting.with_limit(verdict)
    if len(name) + len(numbers) + 8 <= console.width:
        _indented(console, Text.assemble((name, "bold"), "  ", numbers), 4)
    else:
        _indented(console, Text(name, style="bold"), 4)
        _indented(console, Text(numbers), 6)


def _details(verdict: Verdict) -> Iterator[tuple[str, str]]:
    if formatting.is_advisory(verdict):
        yield formatting.shorten(formatting.plain(verdict.why), 400), "dim"
        return
    if verdict.reason.code not in formatting.LIMIT_CODES:
        yield formatting.shorten(formatting.plain(verdict.reason.message), 600), ""
    for finding in verdict.findings[:MOST_FINDINGS]:
        yield formatting.shorten(formatting.printable(formatting.locate_finding(finding)), 400), ""
    rest = len(verdict.findings) - MOST_FINDINGS
    if rest > 0:
        yield f"… and {formatting.plural(rest, 'finding')} more", ""
    for note in verdict.notes[:MOST_NOTES]:
        yield formatting.shorten(formatting.plain(note), 400), "dim"


def _counts(console: Console, report: Report) -> None:
    rows = tallies(report)
    if not rows:
        return
    columns = [(title, name) for name, title in TITLES.items() if name == "pass" or any(row.counts[name] for row in rows)]
    name_width = max(len("gate"), *(len(row.gate) for row in rows))
    console.print()
    heading = f"{'gate':<{name_width}}" + "".join(f"{title:>{len(title) + 2}}" for title, _ in columns)
    wide = console.width >= ROOM_FOR_CLOSEST
    console.print(Text(heading + ("  closest to its limit" if wide else ""), style="bold"))
    for row in rows:
        line = f"{formatting.printable(row.gate):<{name_width}}"
        line += "".join(f"{row.counts[name] or '·':>{len(title) + 2}}" for title, name in columns)
        worst = next((outcome for outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE) if row.counts[outcome.lower()]), None)
        text = Text(line, style=STYLES[worst] if worst else "")
        if wide and row.closest:
            text.append(f"  {formatting.with_limit(row.closest)}  {formatting.printable(row.closest.target)}", "dim")
        text.truncate(console.width, overflow="ellipsis")
        console.print(text)


def _footer(console: Console, report: Report) -> None:
    console.print()
    for line in formatting.speeds(report):
        console.print(Text(formatting.printable(line)))
    for line in formatting.origins(report.verdicts):
        console.print(Text(line))
    if report.excluded:
        pairs = formatting.plural(len(report.excluded), "pair")
        console.print(Text(f"not applicable: {pairs} of gate and target (flashcore-ci plan says why)", style="dim"))
    for note in report.notes:
        console.print(Text(f"note: {formatting.shorten(formatting.plain(note), 600)}", style="dim"))
    judged = f"judged as of {formatting.printable(report.as_of)} by flashcore-ci {formatting.printable(report.tool)}"
    console.print(Text(judged, style="dim"))


def _by_gate(verdicts: Iterable[Verdict]) -> str:
    counts = Counter(verdict.gate for verdict in verdicts)
    return ", ".join(f"{formatting.printable(gate)} {count}" for gate, count in counts.items())


def _indented(console: Console, text: Text, columns: int) -> None:
    console.print(Padding(text, (0, 0, 0, columns), expand=False))
