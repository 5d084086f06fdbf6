"""A plan as text."""

from __future__ import annotations

from collections.abc import Iterator

from flashcore_ci.model.plan import Check, Plan
from flashcore_ci.report import formatting


def as_json(plan: Plan) -> bytes:
    """The plan's record as the run folder holds it."""
    from flashcore_ci.store.codec import encode  # noqa: PLC0415 - pydantic is heavy

    return encode(plan)


def as_text(plan: Plan) -> str:
    """Every check by gate with its limit, then what does not apply and why."""
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: Plan) -> Iterator[str]:
    gates = dict.fromkeys(check.gate.id for check in plan.checks)
    yield f"{plan.suite} ({plan.suite_file}): {formatting.plural(len(plan.checks), 'check')} of {formatting.plural(len(gates), 'gate')}"
    for gate in gates:
        checks = [check for check in plan.checks if check.gate.id == gate]
        yield ""
        yield f"{gate}: {checks[0].gate.title} ({formatting.plural(len(checks), 'check')})"
        yield from (_check(check) for check in checks)
    if plan.excluded:
        yield ""
        yield f"Not applicable ({formatting.plural(len(plan.excluded), 'pair')}):"
        yield from (f"  {excluded.gate}  {excluded.target}: {excluded.why}" for excluded in plan.excluded)


def _check(check: Check) -> str:
    limit = formatting.condition(check.gate.rule, check.limit.value, check.limit.unit)
    why = f"  ({check.limit.severity}: {check.limit.why})" if check.limit.severity == "advisory" else ""
    return f"  {check.target}  {check.gate.metric} {limit}{why}"
