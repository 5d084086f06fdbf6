"""What a change cannot have affected: checks that ask the same of the same code as the base did. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flashcore_ci.judge.matching import Matcher
from flashcore_ci.judge.references import References
from flashcore_ci.model.evidence import BuildEvidence, Identity
from flashcore_ci.model.plan import Check, Plan
from flashcore_ci.model.suite import STATIC_KINDS, Kind, Waiver

CheckKey = tuple[str, str]
TIMED_KINDS = frozenset({Kind.TIMING, Kind.COMPARISON})


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two commits: what it plans, builds and waives, and what it holds times against."""

    plan: Plan
    builds: tuple[BuildEvidence, ...]
    waivers: tuple[Waiver, ...]
    references: References


def unaffected(head: Side, base: Side) -> frozenset[CheckKey]:
    """The (gate, target) of ``head`` whose answer is the base's own.

    Those have the same six digests on both sides, the same rule and limit, the same time to answer, the same waivers, and the same
    references where times are judged. What
    the compiler answers is always asked: it costs nothing. So is what no digest covers, a subject without machine code.
    """
    before = {check.key: check for check in base.plan.checks}
    of_head, of_base = (Matcher(plan=side.plan, builds=side.builds, sources=()) for side in (head, base))
    return frozenset(
        check.key
        for check in head.plan.checks
        if check.key in before
        and _is_covered(head.plan, check)
        and _question(head, check) == _question(base, before[check.key])
        and _is_same_identity(of_head.expected(check, head.builds), of_base.expected(before[check.key], base.builds))
    )


def _is_covered(plan: Plan, check: Check) -> bool:
    return check.gate.evidence not in STATIC_KINDS and plan.description(check.subject).build is not None


def _question(side: Side, check: Check) -> tuple[object, ...]:
    """All that a verdict depends on besides the evidence; titles, reasons and owners are for people."""
    gate = replace(check.gate, title="", why="", owner="", limits=(), on=(), roofs=(), tags=())
    limit = replace(check.limit, why="", on="")
    waivers = tuple(waiver for waiver in side.waivers if (waiver.gate, waiver.target) == check.key)
    references = side.references if check.gate.evidence in TIMED_KINDS else None
    return (gate, limit, check.scope, check.subject, waivers, references, _timeout(side.plan, check.gate.evidence))


def _timeout(plan: Plan, kind: Kind) -> float | None:
    return dict(plan.protocol.timeouts).get(kind)


def _is_same_identity(head: object, base: object) -> bool:
    """Two identities that are equal; what was not built has none and equals nothing."""
    return isinstance(head, Identity) and head == base
