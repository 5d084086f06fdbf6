"""``comment.md``: the comment on a pull request. One table with a row a gate; everything else is folded away.

Its first line is a marker, by which whoever posts it finds the earlier comment and updates that one.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator

from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.evidence import Provenance
from flashcore_ci.model.suite import Kind
from flashcore_ci.model.verdict import Outcome, Report, Verdict
from flashcore_ci.report import formatting, markdown
from flashcore_ci.report.comparison import Compared, compared
from flashcore_ci.report.groups import sections

MOST_BYTES = 60_000
"""GitHub takes 65,536 characters; bytes are no fewer."""
MOST_SECTION_BYTES = 16_000
NOTHING = "—"


def render(report: Report, dossier: Dossier) -> str:
    """The comment, most important first. What does not fit is counted in the last line."""
    return markdown.bounded(_blocks(report, dossier), MOST_BYTES)


def marker(suite: str) -> str:
    """The comment's first line: an HTML comment that nobody sees, the same for every run of the suite."""
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._") else "-" for c in suite)
    return f"<!-- flashcore-ci: {name.strip('-') or 'suite'} -->"


def _blocks(report: Report, dossier: Dossier) -> Iterator[str]:
    headline = markdown.escape(formatting.headline(report))
    yield f"{marker(report.suite)}\n## {markdown.MARKS[report.outcome]} {report.outcome}: {headline}"
    by_gate = [[v for v in report.verdicts if v.gate == gate] for gate in dict.fromkeys(v.gate for v in report.verdicts)]
    if by_gate:
        worst_first = sorted(by_gate, key=lambda verdicts: min(map(_importance, verdicts))[:3])
        rows = (_row(verdicts, dossier) for verdicts in worst_first)
        yield markdown.table(("gate", "base", "head", "change", "verdict"), rows)
    for section in sections(report):
        blocks = itertools.islice(markdown.section(section), 1, None)  # the fold's title stands for the heading
        inner = markdown.bounded(blocks, MOST_SECTION_BYTES).rstrip()
        yield _folded(f"{section.title}: {formatting.plural(len(section.verdicts), 'check')}", inner)
    yield from _comparisons(dossier)
    yield _folded("Where this is from", "\n".join(_origin(report)))


def _row(verdicts: list[Verdict], dossier: Dossier) -> tuple[str, ...]:
    """The gate by the check that matters most: what blocks, else what is red at all, else the one closest to its limit."""
    worst = min(verdicts, key=_importance)
    both = compared(dossier, worst.target) if worst.evidence is Kind.COMPARISON else None
    passed = sum(verdict.outcome is Outcome.PASS for verdict in verdicts)
    counted = f"{passed} of {len(verdicts)}" if passed < len(verdicts) or len(verdicts) > 1 else ""
    verdict = " ".join(filter(None, (markdown.MARKS[worst.outcome], formatting.label(worst), counted and f"({counted} passed)")))
    if both is not None:
        return (worst.gate, *_sides(both), verdict)
    head = f"{formatting.reading(worst)}, limit {formatting.limit(worst)}, {worst.target}"
    return (worst.gate, NOTHING, head, NOTHING, verdict)


def _importance(verdict: Verdict) -> tuple[bool, bool, bool, float]:
    red = formatting.is_red(verdict)
    return (not verdict.blocks, not red, verdict.outcome is not Outcome.FAIL, -formatting.closeness(verdict))


def _sides(both: Compared) -> tuple[str, str, str]:
    base, head = (formatting.number(statistics.median(side), both.unit) for side in (both.base, both.head))
    return base, head, f"{both.change:+.2f} %"


def _comparisons(dossier: Dossier) -> Iterator[str]:
    """Every workload that ran on both sides, the one that lost most first."""
    found = [(workload.id, compared(dossier, workload.id)) for workload in dossier.workloads]
    pairs = sorted(((name, both) for name, both in found if both), key=lambda pair: -pair[1].change)
    if pairs:
        rows = ((name, *_sides(both), str(len(both.base))) for name, both in pairs)
        yield _folded("Every workload, base and head", markdown.table(("workload", "base", "head", "change", "rounds"), rows))


def _origin(report: Report) -> Iterator[str]:
    yield f"- suite {markdown.escape(report.suite)}, exit code {report.exit_code}, judged as of {markdown.escape(report.as_of)}"
    yield from (f"- {markdown.escape(line)}" for line in formatting.origins(report.verdicts))
    if report.provenance is not None:
        yield from (f"- {markdown.escape(line)}" for line in _measured(report.provenance))
    yield from (f"- {markdown.escape(note)}" for note in report.notes)


def _measured(provenance: Provenance) -> Iterator[str]:
    yield f"commit {provenance.commit or 'unknown'}{', with uncommitted changes' if provenance.dirty else ''}"
    yield f"clocks: {provenance.clock_policy or 'unknown'}"
    yield ", ".join(f"{name} {version}" for name, version in provenance.tools) or "no tools recorded"


def _folded(title: str, inner: str) -> str:
    return f"<details><summary>{markdown.html(title)}</summary>\n\n{inner}\n\n</details>"
