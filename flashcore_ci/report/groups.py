"""Order verdicts by importance: blocking, deferred, advisory, waived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flashcore_ci.model.codes import Code
from flashcore_ci.model.suite import BAR
from flashcore_ci.model.verdict import Origin, Outcome, Report, Verdict
from flashcore_ci.report.formatting import closeness, is_advisory, is_red

COLUMNS = ("pass", "fail", "inconclusive", "waived", "advisory", "deferred")
Selector = Callable[[Verdict], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with its verdicts. Urgent ones come first."""

    anchor: str
    title: str
    is_urgent: bool
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Verdicts with the same outcome, reason code, origin and next step."""

    outcome: Outcome
    code: Code
    origin: Origin
    next_step: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """One gate's counts, and the pass closest to its limit."""

    gate: str
    counts: dict[str, int]
    closest: Verdict | None


def sections(report: Report, *, urgent: bool | None = None) -> tuple[Section, ...]:
    """Return the non-empty sections that are not PASS: urgent, others, or all (None)."""
    selectors: tuple[tuple[str, str, bool, Selector], ...] = (
        ("bar", "The bar, compared with the base's", True, lambda v: v.gate == BAR and v.outcome is not Outcome.PASS),
        ("blocking", "Blocking", True, lambda v: v.blocks),
        ("deferred", "Deferred to the GPU job", True, lambda v: v.deferred),
        ("advisory", "Advisory", False, is_red),
        ("waived", "Waived", False, lambda v: v.outcome is Outcome.WAIVED),
    )
    rest = list(report.verdicts)
    found = []
    for anchor, title, is_urgent, selected in selectors:
        chosen = tuple(sorted((verdict for verdict in rest if selected(verdict)), key=_importance))
        rest = [verdict for verdict in rest if not selected(verdict)]
        if chosen and urgent in {None, is_urgent}:
            found.append(Section(anchor=anchor, title=title, is_urgent=is_urgent, verdicts=chosen))
    return tuple(found)


def clusters(verdicts: Iterable[Verdict]) -> tuple[Cluster, ...]:
    """Group the verdicts, in order of first appearance."""
    groups: dict[tuple[Outcome, Code, Origin, str], list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault((verdict.outcome, verdict.reason.code, verdict.origin, verdict.next_step), []).append(verdict)
    return tuple(
        Cluster(outcome=outcome, code=code, origin=origin, next_step=next_step, verdicts=tuple(members))
        for (outcome, code, origin, next_step), members in groups.items()
    )


def tallies(report: Report) -> tuple[Tally, ...]:
    """Count each gate's verdicts by column."""
    gates = dict.fromkeys(verdict.gate for verdict in report.verdicts)
    return tuple(_tally(gate, [v for v in report.verdicts if v.gate == gate]) for gate in gates)


def passes_by_kind(report: Report) -> list[tuple[str, int, int]]:
    """Return (kind of evidence, checks passed, checks)."""
    total = Counter(verdict.evidence for verdict in report.verdicts)
    passed = Counter(verdict.evidence for verdict in report.verdicts if verdict.outcome is Outcome.PASS)
    return [(str(kind), passed[kind], count) for kind, count in total.items()]


def _tally(gate: str, verdicts: list[Verdict]) -> Tally:
    columns = [_column(v) for v in verdicts]
    passed = (v for v, column in zip(verdicts, columns, strict=True) if column == "pass" and closeness(v) > 0)
    counts = {column: columns.count(column) for column in COLUMNS}
    return Tally(gate=gate, counts=counts, closest=max(passed, key=closeness, default=None))


def _column(verdict: Verdict) -> str:
    if verdict.deferred:
        return "deferred"
    return "advisory" if is_advisory(verdict) else verdict.outcome.lower()


def _importance(verdict: Verdict) -> int:
    return 0 if verdict.outcome is Outcome.FAIL else 1
