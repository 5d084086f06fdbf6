"""Verdicts in the order in which a person wants them: what blocks, what is advisory, deferred, waived; then the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flashcore_ci.model.codes import Code
from flashcore_ci.model.verdict import Origin, Outcome, Report, Verdict
from flashcore_ci.report.formatting import closeness, is_red

Selector = Callable[[Verdict], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and the verdicts under it, most important first."""

    title: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Verdicts that are red for the same reason, with evidence of the same origin and the same next step."""

    outcome: Outcome
    code: Code
    origin: Origin
    next_step: str
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """One gate's counts, and the passing verdict that is closest to its limit (None when none passed with a reading)."""

    gate: str
    passed: int
    failed: int
    inconclusive: int
    waived: int
    advisory: int
    deferred: int
    closest: Verdict | None


def sections(report: Report) -> tuple[Section, ...]:
    """Everything that is not a plain PASS, in sections; each verdict is in exactly one, empty sections are left out."""
    selectors: tuple[tuple[str, Selector], ...] = (
        ("Blocking", lambda v: v.blocks),
        ("Deferred to the GPU job", lambda v: v.deferred),
        ("Advisory", is_red),
        ("Waived", lambda v: v.outcome is Outcome.WAIVED),
    )
    rest = list(report.verdicts)
    found = []
    for title, selected in selectors:
        chosen = [verdict for verdict in rest if selected(verdict)]
        rest = [verdict for verdict in rest if not selected(verdict)]
        if chosen:
            found.append(Section(title=title, verdicts=tuple(sorted(chosen, key=_importance))))
    return tuple(found)


def clusters(verdicts: Iterable[Verdict]) -> tuple[Cluster, ...]:
    """The verdicts grouped by outcome, code, origin and next step, in order of first appearance."""
    groups: dict[tuple[Outcome, Code, Origin, str], list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault((verdict.outcome, verdict.reason.code, verdict.origin, verdict.next_step), []).append(verdict)
    return tuple(
        Cluster(outcome=outcome, code=code, origin=origin, next_step=next_step, verdicts=tuple(members))
        for (outcome, code, origin, next_step), members in groups.items()
    )


def tallies(report: Report) -> tuple[Tally, ...]:
    """One tally a gate, in the order of the plan; every verdict is counted in exactly one column."""
    gates = dict.fromkeys(verdict.gate for verdict in report.verdicts)
    return tuple(_tally(gate, [v for v in report.verdicts if v.gate == gate]) for gate in gates)


def _tally(gate: str, verdicts: list[Verdict]) -> Tally:
    deferred = [v for v in verdicts if v.deferred]
    counted = [v for v in verdicts if not v.deferred]
    advisory = [v for v in counted if is_red(v) and not v.blocks]
    plain = [v for v in counted if v.blocks or not is_red(v)]
    passed = [v for v in plain if v.outcome is Outcome.PASS]
    return Tally(
        gate=gate,
        passed=len(passed),
        failed=sum(v.outcome is Outcome.FAIL for v in plain),
        inconclusive=sum(v.outcome is Outcome.INCONCLUSIVE for v in plain),
        waived=sum(v.outcome is Outcome.WAIVED for v in plain),
        advisory=len(advisory),
        deferred=len(deferred),
        closest=max((v for v in passed if closeness(v) >= 0), key=closeness, default=None),
    )


def _importance(verdict: Verdict) -> int:
    """FAIL before INCONCLUSIVE; sorting is stable, so the plan's order holds within each."""
    return 0 if verdict.outcome is Outcome.FAIL else 1
