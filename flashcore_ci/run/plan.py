"""The plan of a suite: load the suite, describe its subjects, list the checks."""

from __future__ import annotations

from collections.abc import Iterator

from flashcore_ci.collect.describe import describe
from flashcore_ci.model.errors import SuiteError
from flashcore_ci.model.plan import Check, Plan
from flashcore_ci.model.suite import Severity, Suite
from flashcore_ci.plan import planner
from flashcore_ci.report import formatting
from flashcore_ci.run.progress import Progress
from flashcore_ci.run.request import Request
from flashcore_ci.run.scratch import scratch_folder
from flashcore_ci.store.codec import encode
from flashcore_ci.suite.loader import load


def load_suite(request: Request) -> Suite:
    """Load the suite that the request names. SuiteError lists everything that is wrong with it."""
    return load(request.root / request.suite, root=request.root)


def make_plan(suite: Suite, request: Request, progress: Progress, *, compared: bool | None = None) -> Plan:
    """List what will be judged, as the subjects in this checkout describe themselves.

    ``compared`` says whether gates on comparisons apply (None: if the request names a base).
    """
    progress("asking the subjects what they are")
    with scratch_folder() as scratch:
        descriptions = describe(suite, root=request.root, python=request.settings.python, scratch=scratch)
    plan = planner.make_plan(suite, descriptions, compared=request.base is not None if compared is None else compared)
    if not request.kinds:
        return planner.narrow(plan, request.only)
    gates = [gate.id for gate in suite.gates if gate.evidence in request.kinds]
    if not gates:
        kinds = ", ".join(request.kinds)
        raise SuiteError((f"{suite.file}: no gate judges evidence of kind {kinds}",), fix="add one, as gates/hopper.toml does")
    return planner.narrow(planner.narrow(plan, gates), request.only)


def as_json(plan: Plan) -> bytes:
    """Encode the plan as the run folder holds it."""
    return encode(plan)


def as_text(plan: Plan) -> str:
    """List every check by gate with its limit, then what does not apply and why."""
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: Plan) -> Iterator[str]:
    gates = dict.fromkeys(check.gate.id for check in plan.checks)
    yield f"{plan.suite} ({plan.suite_file}): {formatting.plural(len(plan.checks), 'check')} of {formatting.plural(len(gates), 'gate')}"
    for gate in gates:
        checks = [check for check in plan.checks if check.gate.id == gate]
        yield ""
        yield f"{gate}: {checks[0].gate.title} ({formatting.plural(len(checks), 'check')})"
        yield from (_line(check) for check in checks)
    if plan.excluded:
        yield ""
        yield f"Not applicable ({formatting.plural(len(plan.excluded), 'pair')}):"
        yield from (f"  {excluded.gate}  {excluded.target}: {excluded.why}" for excluded in plan.excluded)


def _line(check: Check) -> str:
    limit = f"{check.gate.rule} {formatting.number(check.limit.value, check.limit.unit, digits=6)}"
    why = f"  ({check.limit.severity}: {check.limit.why})" if check.limit.severity is Severity.ADVISORY else ""
    return f"  {check.target}  {check.gate.metric} {limit}{why}"
