"""Lower the bar of the recorded suite, as a pull request could."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flashcore_ci.judge.bar import judge_bar
from flashcore_ci.model.bar import Side
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.suite import Gate, Ridge, Severity, SubjectRef, Suite
from flashcore_ci.model.verdict import Origin
from flashcore_ci.plan.bar import compare

NOT_SEEN = "not seen"
EASIER_SUITE = "easier-default-suite"


def reason_of(plan: Plan, tampering: str) -> str:
    """Lower the bar of the plan's first gate, and return the reason code of its first check."""
    gates = tuple(dict.fromkeys(check.gate for check in plan.checks))
    suite = Suite(
        name=plan.suite,
        file=plan.suite_file,
        subjects=tuple(SubjectRef(name=described.subject, file=described.file) for described in plan.descriptions),
        workloads=plan.workloads,
        gates=gates,
        waivers=(),
        ridge=Ridge(device="any", flops=1.0, bandwidth=1.0),
        protocol=plan.protocol,
    )
    base = Side(suite=suite, descriptions=plan.descriptions, project={"suite": suite.file})
    if tampering == EASIER_SUITE:
        head, kind = replace(base, project={"suite": "easier.toml"}), "default "
    else:
        head, kind = replace(base, suite=replace(suite, gates=TAMPERINGS[tampering](gates))), "check "
    verdicts = judge_bar(compare(base, head), (), origin=Origin(kind="none"))
    return next((str(v.reason.code) for v in verdicts if v.blocks and v.target.startswith(kind)), NOT_SEEN)


def _raise_limits(gates: tuple[Gate, ...]) -> tuple[Gate, ...]:
    first = gates[0]
    return (replace(first, limits=tuple(replace(limit, value=1e9) for limit in first.limits)), *gates[1:])


def _add_advisory_row(gates: tuple[Gate, ...]) -> tuple[Gate, ...]:
    first = gates[0]
    row = replace(first.limits[0], on="*", severity=Severity.ADVISORY)
    return (replace(first, limits=(row, *first.limits)), *gates[1:])


TAMPERINGS: dict[str, Callable[[tuple[Gate, ...]], tuple[Gate, ...]]] = {
    "deleted-gate": lambda gates: gates[1:],
    "raised-limit": _raise_limits,
    "advisory-row-first": _add_advisory_row,
    EASIER_SUITE: lambda gates: gates,
}
