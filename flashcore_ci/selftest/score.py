"""Score a self-test: each gate must catch its defect, and every check without a defect must pass."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.suite import STATIC_KINDS
from flashcore_ci.model.verdict import Outcome, Report, Verdict
from flashcore_ci.selftest.model import Caught, Planted, SelfTest


def caught(planted: Planted, report: Report, observations: Iterable[Observation] = ()) -> Caught:
    """What the report says of this defect. A target that it does not hold was not caught."""
    found = next((v for v in report.verdicts if (v.gate, v.target) == (planted.gate, planted.target)), None)
    if found is None:
        return Caught(planted=planted, found="never asked", red=False, seconds=None)
    red = found.outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE} and found.blocks
    return Caught(planted=planted, found=found.reason.code, red=red, seconds=_seconds(found, observations))


def not_green(test: SelfTest, report: Report) -> tuple[Verdict, ...]:
    """Return the checks on targets without a defect that do not pass."""
    return tuple(v for v in report.verdicts if _is_clean(test, v) and v.outcome is not Outcome.PASS)


def idle_globs(test: SelfTest, report: Report) -> tuple[str, ...]:
    """Return the globs of targets without a defect that match nothing."""
    targets = {verdict.target for verdict in report.verdicts}
    return tuple(glob for glob in test.clean if not any(fnmatchcase(target, glob) for target in targets))


def gates_without_a_control(test: SelfTest, report: Report) -> tuple[str, ...]:
    """Return the gates that passed on no target without a defect. They may be unable to pass."""
    asked = dict.fromkeys(verdict.gate for verdict in report.verdicts)
    green = {v.gate for v in report.verdicts if _is_clean(test, v) and v.outcome is Outcome.PASS}
    return tuple(gate for gate in asked if gate not in green)


def gates_without_a_defect(test: SelfTest, gates: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``gates`` that no defect tests."""
    meant = {planted.gate for planted in test.planted if planted.target}
    return tuple(gate for gate in gates if gate not in meant)


def _is_clean(test: SelfTest, verdict: Verdict) -> bool:
    return any(fnmatchcase(verdict.target, glob) for glob in test.clean)


def _seconds(verdict: Verdict, observations: Iterable[Observation]) -> float | None:
    if verdict.evidence in STATIC_KINDS:
        return None
    mine = (seen.seconds for seen in observations if (seen.kind, seen.target) == (verdict.evidence, verdict.target))
    return next(mine, None)
