"""The plan of a suite, and its gates in words."""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from flashcore_ci.collect.describe import describe, find_absent_files
from flashcore_ci.model.codes import Code
from flashcore_ci.model.errors import SuiteError, UsageError
from flashcore_ci.model.plan import Check, Plan
from flashcore_ci.model.suite import Severity, Statistic, Suite
from flashcore_ci.plan import planner
from flashcore_ci.report import explain as words
from flashcore_ci.report import formatting
from flashcore_ci.run.host import scratch_folder
from flashcore_ci.run.request import Progress, Request
from flashcore_ci.store.codec import encode
from flashcore_ci.suite.loader import load

TOLERANCES = ("error/ratio", "diff/max")


def load_suite(request: Request) -> Suite:
    """Load the requested suite. SuiteError lists every problem. Gates of another suite that compare measurements are left out."""
    suite = load(request.root / request.suite, root=request.root)
    if request.gates_of is None:
        return suite
    gates = load(request.root / request.gates_of, root=request.root).gates
    return replace(suite, gates=tuple(gate for gate in gates if gate.statistic not in {Statistic.SLOWDOWN, Statistic.DRIFT}))


def make_plan(suite: Suite, request: Request, progress: Progress, *, compared: bool | None = None) -> Plan:
    """List the checks. ``compared``: with comparisons (None: if the request has a base)."""
    progress("asking the subjects what they are")
    with scratch_folder() as scratch:
        descriptions = describe(suite, root=request.root, python=request.settings.python, scratch=scratch)
    if request.build is None and (absent := find_absent_files(descriptions, request.root)):
        raise SuiteError(tuple(absent), fix="correct the subject, then run `flashcore-ci plan`")
    plan = planner.make_plan(suite, descriptions, compared=request.base is not None if compared is None else compared)
    if not request.kinds:
        return planner.narrow(plan, request.only)
    gates = [gate.id for gate in suite.gates if gate.evidence in request.kinds]
    if not gates:
        kinds = ", ".join(request.kinds)
        raise SuiteError((f"{suite.file}: no gate judges evidence of kind {kinds}",), fix="add a [[gate]] with such evidence")
    return planner.narrow(planner.narrow(plan, gates), request.only)


as_json = encode


def as_text(plan: Plan) -> str:
    """List every check and limit, then what does not apply."""
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: Plan) -> Iterator[str]:
    gates = dict.fromkeys(check.gate.id for check in plan.checks)
    yield f"{plan.suite} ({plan.suite_file}): {formatting.plural(len(plan.checks), 'check')} of {formatting.plural(len(gates), 'gate')}"
    for size, count in sorted(Counter(workload.gpus for workload in plan.workloads if workload.gpus > 1).items()):
        yield f"on {size} GPUs together: {formatting.plural(count, 'workload')}"
    for gate in gates:
        checks = [check for check in plan.checks if check.gate.id == gate]
        yield ""
        yield f"{gate}: {checks[0].gate.title} ({formatting.plural(len(checks), 'check')})"
        yield from (_line(check) for check in checks)
    if plan.defaults:
        yield ""
        yield f"Defaults of keys that the suite omits ({len(plan.defaults)}):"
        for table, keys in itertools.groupby(plan.defaults, lambda default: default[0].partition(".")[0]):
            inner = ", ".join(f"{key.removeprefix(table).lstrip('.')} = {value}".lstrip() for key, value in keys)
            yield f"  {formatting.printable(f'{table} {inner}')}"
    yield from _estimates(plan)
    if plan.excluded:
        yield ""
        yield f"Not applicable ({formatting.plural(len(plan.excluded), 'pair')}):"
        yield from (f"  {excluded.gate}  {excluded.target}: {excluded.why}" for excluded in plan.excluded)


def _estimates(plan: Plan) -> Iterator[str]:
    """List the work that a tool estimated, with the tolerance that applies to it."""
    guesses = [p for d in plan.descriptions for p in d.problems if p.estimated]
    if guesses:
        yield ""
        yield f"Estimated, for your review in problem() ({formatting.plural(len(guesses), 'workload')}):"
    for guess in guesses:
        tolerances = [
            f"{check.gate.metric} {formatting.condition(check.gate.rule, check.limit.value, check.limit.unit)}"
            for check in plan.checks
            if check.target == guess.workload and check.gate.metric in TOLERANCES
        ]
        shapes = formatting.printable(", ".join(guess.output_shapes))
        work = f"{guess.flops:.4g} FLOP, {guess.bytes:.4g} byte"
        yield f"  {guess.workload}: {work}, outputs {shapes or 'unknown'}, tolerance {' and '.join(tolerances) or 'none'}"


def _line(check: Check) -> str:
    limit = formatting.condition(check.gate.rule, check.limit.value, check.limit.unit)
    why = f"  ({check.limit.severity}: {check.limit.why})" if check.limit.severity is Severity.ADVISORY else ""
    return f"  {check.target}  {check.gate.metric} {limit}{why}"


def explain(name: str, suite: Path, root: Path) -> str:
    """Explain a reason code or a gate. UsageError for other names."""
    if name in set(Code):
        return words.render_code(Code(name))
    gates = {gate.id: gate for gate in load(suite, root=root).gates}
    if name in gates:
        return words.render(gates[name])
    similar = difflib.get_close_matches(name, [*gates, *Code], n=1, cutoff=0.5)
    meant = f"; did you mean {similar[0]}?" if similar else ""
    message = f"{name} is neither a gate of {suite} nor a reason code{meant}\ngates: {', '.join(gates)}"
    raise UsageError(message, fix=f"flashcore-ci explain {similar[0] if similar else next(iter(gates))}")
