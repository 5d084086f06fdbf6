"""``explain GATE``: one gate in words."""

from __future__ import annotations

import textwrap

from flashcore_ci.model.codes import FAILING, NEXT_STEP, PASSING, SUBJECT_FAILURES, Code
from flashcore_ci.model.suite import STATIC_KINDS, Gate, Kind, Limit, Statistic
from flashcore_ci.report import formatting

WIDTH = 100

EVIDENCE = {
    Kind.BUILD: "the compiler, at build time",
    Kind.RESOURCES: "the compiled machine code, at build time",
    Kind.CORRECTNESS: "outputs compared with PyTorch's, in a process of its own",
    Kind.SANITIZER: "compute-sanitizer over a counted number of launches",
    Kind.PROFILE: "Nsight Compute, clocks left as they are",
    Kind.TIMING: "CUDA events over settled launches, in fresh processes",
    Kind.COMPARISON: "base and head in rounds of two fresh processes, in random order",
}


def render(gate: Gate) -> str:
    """What the gate asks, of what, why, and what can come out of it."""
    faults = ", ".join(sorted(SUBJECT_FAILURES))
    lines = [
        f"{gate.id}: {gate.title}",
        "",
        f"  why       {gate.why}",
        f"  owner     {gate.owner}",
        f"  evidence  {EVIDENCE[gate.evidence]}",
        f"  metric    {gate.metric}{_statistic(gate)}",
        f"  on        {', '.join(gate.on) or 'every target'}{_selection(gate)}",
        "",
        "Limits (the first whose pattern matches the target counts):",
        *(_limit(gate, limit) for limit in gate.limits),
        "",
        *textwrap.wrap(
            f"A check is red when the value is not {gate.rule} its limit. {_origin(gate)} A reading that is missing is FAIL when "
            f"the kernel is at fault ({faults}), else INCONCLUSIVE. Neither merges where the limit is blocking; where it is "
            "advisory, both are only shown.",
            width=WIDTH,
            break_on_hyphens=False,
        ),
        "",
        f"To try it: flashcore-ci gate --only '{gate.id}'",
    ]
    return "\n".join(formatting.clean_lines(line).rstrip() for line in lines) + "\n"


def render_code(code: Code) -> str:
    """What a reason code means and what to do."""
    step = NEXT_STEP.get(code, "nothing: the check passed")
    return f"{code}\n\n  verdict  {verdict_of(code)}\n  next     {step}\n"


def verdict_of(code: Code) -> str:
    """Which verdict comes with this code."""
    if code in PASSING:
        return "PASS"
    if code in SUBJECT_FAILURES | FAILING:
        return "FAIL"
    return "INCONCLUSIVE"


def _limit(gate: Gate, limit: Limit) -> str:
    return f"  {limit.on:<24} {gate.rule} {formatting.number(limit.value, limit.unit, digits=6)}  {limit.severity}{f': {limit.why}' if limit.why else ''}"


def _statistic(gate: Gate) -> str:
    if gate.statistic is Statistic.VALUE:
        return ""
    if gate.statistic is Statistic.SLOWDOWN:
        return ": cycles of head over base (time, where memory is the roof), looked at after 5, 8 and 12 rounds"
    if gate.statistic is Statistic.DRIFT:
        return f": cycles (time, where memory is the roof) over the baseline's, over at least {gate.min_samples} processes"
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
        return "It is always judged from the build just made; no GPU is needed."
    return "Without a GPU it is judged from recorded evidence of the same code, or is INCONCLUSIVE."
