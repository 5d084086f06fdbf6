"""Compare a report with what the self-test demands. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatchcase

from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.suite import STATIC_KINDS
from flashcore_ci.model.verdict import Outcome, Report, Verdict
from flashcore_ci.selftest.model import Defect, Detection, SelfTest


def detect(defect: Defect, report: Report, observations: Iterable[Observation] = ()) -> Detection:
    """Look up the verdict on this mutant."""
    verdict = next((v for v in report.verdicts if (v.gate, v.target) == (defect.gate, defect.target)), None)
    if verdict is None:
        return Detection(defect=defect, reason="never asked", red=False, seconds=None)
    red = verdict.outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE} and verdict.blocks
    return Detection(defect=defect, reason=verdict.reason.code, red=red, seconds=_seconds(verdict, observations))


def not_green(test: SelfTest, report: Report) -> tuple[Verdict, ...]:
    """List the checks without a defect that are not green."""
    return tuple(v for v in report.verdicts if _is_clean(test, v) and v.outcome is not Outcome.PASS)


def idle_globs(test: SelfTest, report: Report) -> tuple[str, ...]:
    """List the globs of ``clean`` that match no target."""
    targets = {verdict.target for verdict in report.verdicts}
    return tuple(glob for glob in test.clean if not any(fnmatchcase(target, glob) for target in targets))


def gates_without_a_control(test: SelfTest, report: Report) -> tuple[str, ...]:
    """List the gates that were never green: they may be unable to."""
    gates = dict.fromkeys(verdict.gate for verdict in report.verdicts)
    green = {v.gate for v in report.verdicts if _is_clean(test, v) and v.outcome is Outcome.PASS}
    return tuple(gate for gate in gates if gate not in green)


def gates_without_a_defect(detections: Iterable[Detection], gates: Iterable[str]) -> tuple[str, ...]:
    """List the gates that caught no broken kernel and no planted slowdown."""
    covered = {detection.defect.gate for detection in detections if detection.defect.target and detection.is_right}
    return tuple(gate for gate in gates if gate not in covered)


def dropped_defects(base: SelfTest, head: SelfTest) -> tuple[str, ...]:
    """List the defects of ``base`` that ``head`` lacks. A new name for one does not count."""
    kept = Counter(replace(defect, name="") for defect in head.defects)
    kept.subtract(replace(defect, name="") for defect in base.defects)
    lost = {defect for defect, count in kept.items() if count < 0}
    return tuple(defect.name for defect in base.defects if replace(defect, name="") in lost)


def _is_clean(test: SelfTest, verdict: Verdict) -> bool:
    return any(fnmatchcase(verdict.target, glob) for glob in test.clean)


def _seconds(verdict: Verdict, observations: Iterable[Observation]) -> float | None:
    if verdict.evidence in STATIC_KINDS:
        return None
    mine = (seen.seconds for seen in observations if (seen.kind, seen.target) == (verdict.evidence, verdict.target))
    return next(mine, None)
