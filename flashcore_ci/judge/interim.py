"""The question that the collector asks after each look: the verdict's own rule, and nothing beside it."""

from __future__ import annotations

from collections.abc import Container, Mapping

from flashcore_ci.judge import no_slower
from flashcore_ci.judge.judge import comparison_context
from flashcore_ci.judge.references import References
from flashcore_ci.judge.stats.sequential_test import INTERIM_LOOKS
from flashcore_ci.model.evidence import Provenance
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Samples
from flashcore_ci.model.suite import Statistic

__all__ = ["INTERIM_LOOKS", "is_final"]


def is_final(
    plan: Plan,
    target: str,
    samples: Mapping[str, Samples],
    *,
    provenance: Provenance,
    references: References,
    same: Container[str],
) -> bool:
    """Whether every check of ``plan`` that compares ``target`` has its verdict, so that further rounds would not be looked at.

    ``samples`` by name, as the observation will have them; ``provenance`` says on which kind of machine they were taken. ``same``
    are the workloads whose code is the same on both sides.
    """
    checks = [check for check in plan.checks if check.gate.statistic is Statistic.SLOWDOWN and check.target == target]
    return all(
        no_slower.is_final(check, samples, comparison_context(plan, check, provenance, references, same=same)) for check in checks
    )
