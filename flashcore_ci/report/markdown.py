"""``summary.md``: GitHub flavoured Markdown, most important first, at most 1 MiB (GitHub's limit of a step summary)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from flashcore_ci.model.verdict import Outcome, Report, Verdict
from flashcore_ci.report import formatting
from flashcore_ci.report.groups import Section, Tally, clusters, sections, tallies

T = TypeVar("T")

MOST_BYTES = 1 << 20
ROOM_FOR_LAST_LINE = 200
MOST_CELL = 500
MOST_FINDINGS = 20

MARKS = {Outcome.PASS: "✅", Outcome.FAIL: "❌", Outcome.INCONCLUSIVE: "❓", Outcome.WAIVED: "⚪"}
ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"})
ESCAPES = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]()#+!|~$"}) | ENTITIES


def render(report: Report, limit: int = MOST_BYTES) -> str:
    """The report as Markdown of at most ``limit`` bytes. What does not fit is counted in the last line."""
    return bounded(_blocks(report), limit)


def _blocks(report: Report) -> Iterator[str]:
    """Blocks that stand on their own, most important first: dropping the last ones leaves valid Markdown."""
    yield f"# {MARKS[report.outcome]} {report.outcome}: {escape(formatting.headline(report))}"
    yield f"Suite {escape(report.suite)}, exit code {report.exit_code}, judged as of {escape(report.as_of)} by flashcore-ci {escape(report.tool)}."
    for each in sections(report):
        yield from section(each)
    yield from _counts(tallies(report))
    yield from (escape(line) for line in formatting.speeds(report))
    yield from (f"> {escape(note)}" for note in report.notes)
    for tally in tallies(report):
        yield from _gate_details(tally.gate, [v for v in report.verdicts if v.gate == tally.gate])
    yield from _excluded(report)


def section(what: Section) -> Iterator[str]:
    """One section's heading, then its verdicts by reason, with findings and notes; each block stands on its own."""
    yield f"## {what.title} ({formatting.plural(len(what.verdicts), 'check')})"
    for cluster in clusters(what.verdicts):
        yield f"### {MARKS[cluster.outcome]} {escape(cluster.code)}: {escape(formatting.origin(cluster.origin))}"
        if cluster.next_step:
            yield f"**Next:** {escape(cluster.next_step)}"
        for part in _batches(cluster.verdicts):
            yield table(("gate", "target", "measured", "limit", "what happened"), (_red_row(v) for v in part))
        for verdict in cluster.verdicts:
            yield from _findings(verdict)
            yield from _notes(verdict)


def _red_row(verdict: Verdict) -> tuple[str, ...]:
    return (verdict.gate, verdict.target, formatting.reading(verdict), formatting.limit(verdict), verdict.reason.message)


def _findings(verdict: Verdict) -> Iterator[str]:
    if not verdict.findings:
        return
    lines = [
        f"- {escape(finding.tool)}: {escape(formatting.shorten(formatting.located(finding), MOST_CELL))}"
        for finding in verdict.findings[:MOST_FINDINGS]
    ]
    left = len(verdict.findings) - MOST_FINDINGS
    if left > 0:
        lines.append(f"- … and {left} more in report.json")
    yield f"{escape(verdict.gate)} on {escape(verdict.target)}:\n\n" + "\n".join(lines)


def _notes(verdict: Verdict) -> Iterator[str]:
    if verdict.notes:
        lines = [f"- {escape(formatting.shorten(note, MOST_CELL))}" for note in verdict.notes[:MOST_FINDINGS]]
        yield f"Notes on {escape(verdict.gate)} on {escape(verdict.target)}:\n\n" + "\n".join(lines)


def _counts(rows: tuple[Tally, ...]) -> Iterator[str]:
    if rows:
        yield "## Gates"
        yield table(
            ("gate", "pass", "fail", "inconclusive", "waived", "advisory", "deferred", "closest to its limit"),
            (
                (
                    row.gate,
                    *(str(n) for n in (row.passed, row.failed, row.inconclusive, row.waived, row.advisory, row.deferred)),
                    f"{formatting.reading(row.closest)} {formatting.limit(row.closest)} ({row.closest.target})"
                    if row.closest
                    else "",
                )
                for row in rows
            ),
        )


def _gate_details(gate: str, verdicts: list[Verdict]) -> Iterator[str]:
    for number, part in enumerate(_batches(verdicts)):
        title = html(gate) if number == 0 else f"{html(gate)}, continued"
        rows = table(
            ("target", "verdict", "measured", "limit", "origin"),
            (
                (v.target, formatting.label(v), formatting.reading(v), formatting.limit(v), formatting.origin(v.origin))
                for v in part
            ),
        )
        yield f"<details><summary>{title}: every reading</summary>\n\n{rows}\n\n</details>"


def _excluded(report: Report) -> Iterator[str]:
    for part in _batches(report.excluded):
        rows = table(("gate", "target", "why"), ((e.gate, e.target, e.why) for e in part))
        yield f"<details><summary>Not applicable</summary>\n\n{rows}\n\n</details>"


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table; every cell is escaped and cut to a bearable length."""
    lines = [_line(header), "|" + " --- |" * len(header)]
    lines += [_line(tuple(escape(formatting.shorten(cell, MOST_CELL)) for cell in row)) for row in rows]
    return "\n".join(lines)


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def _batches(items: Sequence[T], size: int = 200) -> Iterator[Sequence[T]]:
    """The items in tables of bounded size, so that a bounded summary loses little at its end."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def bounded(blocks: Iterable[str], limit: int) -> str:
    """The blocks, blank lines between, up to ``limit`` bytes of UTF-8; the rest is counted, never cut in the middle."""
    if limit < ROOM_FOR_LAST_LINE:
        return ""
    kept: list[str] = []
    used = left_out = 0
    limit -= ROOM_FOR_LAST_LINE
    for block in blocks:
        size = len(block.encode()) + 2
        if left_out or used + size > limit:
            left_out += 1
        else:
            kept.append(block)
            used += size
    if left_out:
        kept.append(f"{left_out} more parts did not fit; report.json has everything.")
    return "\n\n".join(kept) + "\n"


def html(text: str) -> str:
    """``text`` in one line inside an HTML element, where Markdown's backslashes would show."""
    return formatting.printable(text).translate(ENTITIES)


def escape(text: str) -> str:
    """``text`` in one line in which Markdown and HTML see only letters."""
    return formatting.printable(text).translate(ESCAPES)
