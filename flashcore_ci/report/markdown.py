"""Render ``summary.md`` as GitHub Flavored Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from flashcore_ci.model.verdict import Outcome, Report, Verdict
from flashcore_ci.report import formatting
from flashcore_ci.report.groups import COLUMNS, Section, Tally, clusters, sections, tallies

T = TypeVar("T")

MOST_BYTES = 1 << 20
ROOM_FOR_LAST_LINE = 200
MOST_CELL = 500
MOST_FINDINGS = 20

MARKS = {Outcome.PASS: "✅", Outcome.FAIL: "❌", Outcome.INCONCLUSIVE: "❓", Outcome.WAIVED: "⚪"}
ADVISORY = "🟣"
ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"})
ESCAPES = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]()#+!|~$"}) | ENTITIES


def render(report: Report, limit: int = MOST_BYTES) -> str:
    """Return at most ``limit`` bytes."""
    return bounded(_blocks(report), limit)


def _blocks(report: Report) -> Iterator[str]:
    yield f"# {MARKS[report.outcome]} {report.outcome}: {prose(formatting.headline(report))}"
    yield from essentials(report)
    yield f"Suite {escape(report.suite)}, exit code {report.exit_code}, judged as of {escape(report.as_of)} by flashcore-ci {escape(report.tool)}."
    for each in sections(report, urgent=True):
        yield from section(each)
    yield from _counts(tallies(report))
    for each in sections(report, urgent=False):
        yield from section(each)
    yield from (escape(line) for line in formatting.speeds(report))
    yield from (f"> {prose(note)}" for note in report.notes)
    for tally in tallies(report):
        yield from _gate_details(tally.gate, [v for v in report.verdicts if v.gate == tally.gate])
    yield from _excluded(report)


def essentials(report: Report) -> Iterator[str]:
    """Yield the evidence and the two commits."""
    if report.verdicts:
        yield escape(formatting.evidence_summary(report))
    text = escape(formatting.commits(report))
    yield f"{text[0].upper()}{text[1:]}."


def mark(verdict: Verdict) -> str:
    """Return the sign of the outcome."""
    return ADVISORY if formatting.is_advisory(verdict) else MARKS[verdict.outcome]


def section(what: Section) -> Iterator[str]:
    """Yield heading, verdicts by reason, findings and notes."""
    yield f"## {what.title} ({formatting.plural(len(what.verdicts), 'check')})"
    for cluster in clusters(what.verdicts):
        yield f"### {mark(cluster.verdicts[0])} {escape(cluster.code)}: {escape(formatting.origin(cluster.origin))}"
        if cluster.next_step:
            yield f"**Next:** {prose(cluster.next_step)}"
        for part in _batches(cluster.verdicts):
            yield table(("gate", "target", "measured", "limit", "what happened, or why it matters"), (_red_row(v) for v in part))
        for verdict in cluster.verdicts:
            yield from _findings(verdict)
            yield from _notes(verdict)


def _red_row(verdict: Verdict) -> tuple[str, ...]:
    return (verdict.gate, verdict.target, formatting.reading(verdict), formatting.limit(verdict), formatting.detail(verdict))


def _findings(verdict: Verdict) -> Iterator[str]:
    if not verdict.findings:
        return
    shown = ((finding.tool, formatting.locate_finding(finding)) for finding in verdict.findings[:MOST_FINDINGS])
    lines = [f"- {escape(tool)}: {escape(formatting.shorten(text, MOST_CELL))}" for tool, text in shown]
    rest = len(verdict.findings) - MOST_FINDINGS
    if rest > 0:
        lines.append(f"- … and {rest} more in report.json")
    yield f"{escape(verdict.gate)} on {escape(verdict.target)}:\n\n" + "\n".join(lines)


def _notes(verdict: Verdict) -> Iterator[str]:
    if verdict.notes:
        lines = [f"- {prose(formatting.shorten(note, MOST_CELL))}" for note in verdict.notes[:MOST_FINDINGS]]
        yield f"Notes on {escape(verdict.gate)} on {escape(verdict.target)}:\n\n" + "\n".join(lines)


def _counts(rows: tuple[Tally, ...]) -> Iterator[str]:
    if rows:
        yield "## Gates"
        closest = (f"{formatting.with_limit(row.closest)}, {row.closest.target}" if row.closest else "" for row in rows)
        cells = ((row.gate, *map(str, row.counts.values()), near) for row, near in zip(rows, closest, strict=True))
        yield table(("gate", *COLUMNS, "closest to its limit"), cells)


def _gate_details(gate: str, verdicts: list[Verdict]) -> Iterator[str]:
    for number, part in enumerate(_batches(verdicts)):
        title = html(gate) if number == 0 else f"{html(gate)}, continued"
        cells = (
            (v.target, formatting.label(v), formatting.reading(v), formatting.limit(v), formatting.origin(v.origin)) for v in part
        )
        rows = table(("target", "verdict", "measured", "limit", "origin"), cells)
        yield f"<details><summary>{title}: every reading</summary>\n\n{rows}\n\n</details>"


def _excluded(report: Report) -> Iterator[str]:
    for part in _batches(report.excluded):
        rows = table(("gate", "target", "why"), ((e.gate, e.target, e.why) for e in part))
        yield f"<details><summary>Not applicable</summary>\n\n{rows}\n\n</details>"


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table with every cell escaped and cut."""
    lines = [_line(header), "|" + " --- |" * len(header)]
    lines += [_line(tuple(prose(formatting.shorten(cell, MOST_CELL)) for cell in row)) for row in rows]
    return "\n".join(lines)


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def _batches(items: Sequence[T], size: int = 200) -> Iterator[Sequence[T]]:
    """Yield parts, so that a cut summary loses little."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def bounded(blocks: Iterable[str], limit: int) -> str:
    """Join whole blocks up to ``limit`` bytes. The last line counts the rest."""
    if limit < ROOM_FOR_LAST_LINE:
        return ""
    kept: list[str] = []
    used = omitted = 0
    limit -= ROOM_FOR_LAST_LINE
    for block in blocks:
        size = len(block.encode()) + 2
        if omitted or used + size > limit:
            omitted += 1
        else:
            kept.append(block)
            used += size
    if omitted:
        kept.append(f"{omitted} more parts did not fit (report.json has everything).")
    return "\n\n".join(kept) + "\n"


def html(text: str) -> str:
    """Escape ``text`` for an HTML element."""
    return formatting.plain(text).translate(ENTITIES)


def escape(text: str) -> str:
    """Return ``text`` in one line without any markup."""
    return formatting.printable(text).translate(ESCAPES)


@lru_cache(formatting.REMEMBERED)
def prose(text: str) -> str:
    """Escape ``text`` except `code`, in one line."""
    parts = formatting.CODE_SPAN.split(formatting.printable(text))
    return "".join(f"`{part}`" if index % 2 else part.translate(ESCAPES) for index, part in enumerate(parts))
