"""Find the checks that a change cannot affect."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flashcore_ci.judge.matching import Matcher
from flashcore_ci.judge.references import References
from flashcore_ci.model.evidence import BuildEvidence, Identity
from flashcore_ci.model.identity import is_same_code
from flashcore_ci.model.plan import Check, Plan
from flashcore_ci.model.suite import STATIC_KINDS, Kind, Waiver

CheckKey = tuple[str, str]
TIMED_KINDS = frozenset({Kind.TIMING, Kind.COMPARISON})


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison: base or head."""

    plan: Plan
    builds: tuple[BuildEvidence, ...]
    waivers: tuple[Waiver, ...]
    references: References


def unaffected(head: Side, base: Side) -> frozenset[CheckKey]:
    """Return the (gate, target) of ``head`` whose verdict must equal the base's."""
    before = {check.key: check for check in base.plan.checks}
    of_head, of_base = (Matcher(plan=side.plan, builds=side.builds, sources=()) for side in (head, base))
    return frozenset(
        check.key
        for check in head.plan.checks
        if check.key in before
        and check.gate.evidence not in STATIC_KINDS
        and head.plan.description(check.subject).build is not None
        and _question(head, check) == _question(base, before[check.key])
        and is_same_code(
            (_identity(of_base, before[check.key], base), _build(base, before[check.key])),
            (_identity(of_head, check, head), _build(head, check)),
        )
    )


def _identity(matcher: Matcher, check: Check, side: Side) -> Identity | None:
    expected = matcher.expected(check, side.builds)
    return expected if isinstance(expected, Identity) else None


def _build(side: Side, check: Check) -> BuildEvidence | None:
    return next((build for build in side.builds if build.subject == check.subject), None)


def _question(side: Side, check: Check) -> tuple[object, ...]:
    gate = replace(check.gate, title="", why="", owner="", limits=(), on=(), roofs=(), tags=())
    limit = replace(check.limit, why="", on="")
    waivers = tuple(waiver for waiver in side.waivers if (waiver.gate, waiver.target) == check.key)
    references = side.references if check.gate.evidence in TIMED_KINDS else None
    timeout = dict(side.plan.protocol.timeouts).get(check.gate.evidence)
    return (gate, limit, check.scope, check.subject, waivers, references, timeout)
