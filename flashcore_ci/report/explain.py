"""Render ``flashcore-ci explain``: one gate, or one reason code."""

from __future__ import annotations

import textwrap

from flashcore_ci.model.codes import ALERTING, FAILING, NEXT_STEP, PASSING, SUBJECT_FAILURES, Code
from flashcore_ci.model.suite import STATIC_KINDS, Gate, Kind, Limit, Statistic
from flashcore_ci.report import formatting

WIDTH = 100

EVIDENCE = {
    Kind.ALERTS: "the files of alerts next to the suite",
    Kind.BAR: "the suites of base and head, compared",
    Kind.BUILD: "the compiler, at build time",
    Kind.RESOURCES: "the compiled machine code, at build time",
    Kind.MACHINE_CODE: "the machine code that a framework compiled at run time",
    Kind.CORRECTNESS: "outputs compared with PyTorch's, in a separate process",
    Kind.SANITIZER: "compute-sanitizer over a counted number of launches",
    Kind.PROFILE: "Nsight Compute, without locking clocks",
    Kind.TIMING: "CUDA events over launches in steady state, in fresh processes",
    Kind.COMPARISON: "base and head in rounds of two fresh processes, in random order",
}


def render(gate: Gate) -> str:
    """Describe a gate: targets, why, and outcomes."""
    codes = ", ".join(sorted(SUBJECT_FAILURES))
    lines = [
        f"{gate.id}: {gate.title}",
        "",
        f"  why       {formatting.plain(gate.why)}",
        f"  owner     {gate.owner}",
        f"  evidence  {EVIDENCE[gate.evidence]}",
        f"  metric    {gate.metric}{_statistic(gate)}",
        f"  on        {', '.join(gate.on) or 'every target'}{_selection(gate)}",
        "",
        "Limits (the first pattern that matches the target counts):",
        *(_limit(gate, limit) for limit in gate.limits),
        "",
        *textwrap.wrap(
            f"A check passes when its value is {formatting.CONDITIONS[gate.rule]} the limit. {_origin(gate)} Without a value it fails if the kernel caused "
            f"that ({codes}), and is INCONCLUSIVE otherwise. Both block the merge if the limit is blocking. If it is advisory, "
            "the report only shows them.",
            width=WIDTH,
            break_on_hyphens=False,
        ),
        "",
        f"To try it: flashcore-ci gate --only '{gate.id}'",
    ]
    return "\n".join(formatting.clean_lines(line).rstrip() for line in lines) + "\n"


def render_code(code: Code) -> str:
    """Describe a reason code."""
    step = formatting.plain(NEXT_STEP.get(code, "nothing: the check passed"))
    return f"{code}\n\n  verdict  {verdict_of(code)}\n  next     {step}\n"


def verdict_of(code: Code) -> str:
    """Return the verdict of this code."""
    if code in PASSING:
        return "PASS"
    if code in SUBJECT_FAILURES | FAILING | ALERTING:
        return "FAIL"
    return "INCONCLUSIVE"


def _limit(gate: Gate, limit: Limit) -> str:
    return f"  {limit.on:<24} {formatting.condition(gate.rule, limit.value, limit.unit)}  {limit.severity}{f': {formatting.plain(limit.why)}' if limit.why else ''}"


def _statistic(gate: Gate) -> str:
    if gate.statistic is Statistic.VALUE:
        return ""
    if gate.statistic is Statistic.SLOWDOWN:
        return ": cycles of head over base (time where memory is the roof), with interim looks after 5, 8 and 12 rounds"
    if gate.statistic is Statistic.DRIFT:
        return f": cycles (time where memory is the roof) over the baseline's, over at least {gate.min_samples} processes"
    return f", {gate.statistic} over at least {gate.min_samples} processes"


def _selection(gate: Gate) -> str:
    parts = []
    if gate.roofs:
        parts.append(f"roof {' or '.join(gate.roofs)}")
    if gate.tags:
        parts.append(f"tag {' or '.join(gate.tags)}")
    return f" ({'; '.join(parts)})" if parts else ""


def _origin(gate: Gate) -> str:
    if gate.evidence in STATIC_KINDS:
        return "It is always judged from the build just made. No GPU is needed."
    return "Without a GPU it is judged from recorded evidence of the same code, or is INCONCLUSIVE."
