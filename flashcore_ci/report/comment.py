"""Render ``comment.md``. Its first line is a marker to find the earlier comment."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator

from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.evidence import Provenance
from flashcore_ci.model.suite import BAR, Kind
from flashcore_ci.model.verdict import Outcome, Report, Verdict
from flashcore_ci.report import formatting, markdown
from flashcore_ci.report.groups import sections
from flashcore_ci.report.paired_rounds import SpeedComparison, comparison_of

MOST_BYTES = 60_000
"""GitHub takes 65,536 characters, and a text has at least as many bytes."""
MOST_SECTION_BYTES = 16_000
NOTHING = "—"


def render(report: Report, dossier: Dossier) -> str:
    """Return the comment, bounded."""
    return markdown.bounded(_blocks(report, dossier), MOST_BYTES)


def marker(suite: str) -> str:
    """Return an HTML comment that identifies the suite."""
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._") else "-" for c in suite)
    return f"<!-- flashcore-ci: {name.strip('-') or 'suite'} -->"


def _blocks(report: Report, dossier: Dossier) -> Iterator[str]:
    headline = markdown.prose(formatting.headline(report))
    yield f"{marker(report.suite)}\n## {markdown.MARKS[report.outcome]} {report.outcome}: {headline}"
    yield from markdown.essentials(report)
    by_gate = [[v for v in report.verdicts if v.gate == gate] for gate in dict.fromkeys(v.gate for v in report.verdicts)]
    if by_gate:
        worst_first = sorted(by_gate, key=lambda verdicts: min(map(_importance, verdicts))[:4])
        rows = (_row(verdicts, dossier) for verdicts in worst_first)
        yield markdown.table(("gate", "base", "head", "change", "verdict"), rows)
    for section in sections(report):
        blocks = itertools.islice(markdown.section(section), 1, None)  # the fold's title replaces the heading
        inner = markdown.bounded(blocks, MOST_SECTION_BYTES).rstrip()
        yield _folded(f"{section.title}: {formatting.plural(len(section.verdicts), 'check')}", inner)
    yield from _comparisons(dossier)
    yield _folded("Provenance", "\n".join(_origin(report)))


def _row(verdicts: list[Verdict], dossier: Dossier) -> tuple[str, ...]:
    worst = min(verdicts, key=_importance)
    both = comparison_of(dossier, worst.target) if worst.evidence is Kind.COMPARISON else None
    passed = sum(verdict.outcome is Outcome.PASS for verdict in verdicts)
    count = f"({passed:,} of {len(verdicts):,} passed)" if passed < len(verdicts) or len(verdicts) > 1 else ""
    verdict = " ".join(filter(None, (markdown.mark(worst), formatting.label(worst), count)))
    if both is not None:
        return (worst.gate, *_sides(both), verdict)
    head = f"{formatting.with_limit(worst)}, {worst.target}"
    return (worst.gate, NOTHING, head, NOTHING, verdict)


def _importance(verdict: Verdict) -> tuple[bool, bool, bool, bool, float]:
    passed = not formatting.is_red(verdict)
    lowers_bar = verdict.gate == BAR and verdict.outcome is not Outcome.PASS
    return (not lowers_bar, not verdict.blocks, passed, verdict.outcome is not Outcome.FAIL, -formatting.closeness(verdict))


def _sides(both: SpeedComparison) -> tuple[str, str, str]:
    base, head = (formatting.number(statistics.median(side), both.unit) for side in (both.base, both.head))
    return base, head, f"{both.change:+.2f} %"


def _comparisons(dossier: Dossier) -> Iterator[str]:
    found = [(workload.id, comparison_of(dossier, workload.id)) for workload in dossier.workloads]
    pairs = sorted(((name, both) for name, both in found if both), key=lambda pair: -pair[1].change)
    if pairs:
        rows = ((name, *_sides(both), str(len(both.base))) for name, both in pairs)
        yield _folded("Base and head of every workload", markdown.table(("workload", "base", "head", "change", "rounds"), rows))


def _origin(report: Report) -> Iterator[str]:
    yield f"- suite {markdown.escape(report.suite)}, exit code {report.exit_code}, judged as of {markdown.escape(report.as_of)}"
    yield from (f"- {markdown.escape(line)}" for line in formatting.origins(report.verdicts))
    yield f"- judged commit {markdown.escape(report.judged_commit or 'unknown')}"
    if report.provenance is not None:
        yield from (f"- {markdown.escape(line)}" for line in _measured(report.provenance))
    yield from (f"- {markdown.prose(note)}" for note in report.notes)


def _measured(provenance: Provenance) -> Iterator[str]:
    yield f"evidence of commit {provenance.commit or 'unknown'}{', with uncommitted changes' if provenance.dirty else ''}"
    yield f"clocks: {provenance.clock_policy or 'unknown'}"
    yield ", ".join(f"{name} {version}" for name, version in provenance.tools) or "no tools recorded"


def _folded(title: str, inner: str) -> str:
    return f"<details><summary>{markdown.html(title)}</summary>\n\n{inner}\n\n</details>"
