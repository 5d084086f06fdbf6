"""Judge the slowdowns that were planted when the noise was recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import partial

from flashcore_ci.judge import no_drift
from flashcore_ci.judge.stats import sequential_test
from flashcore_ci.judge.stats.paired_estimate import priors
from flashcore_ci.judge.stats.sequential_test import INTERIM_LOOKS, Rounds
from flashcore_ci.model.codes import FAILING, Code
from flashcore_ci.model.metrics import Scale, primary_scale
from flashcore_ci.model.noise import Noise, WorkloadNoise
from flashcore_ci.model.noise import Planted as Pairs
from flashcore_ci.model.suite import Gate, Kind, Severity, Statistic, Suite
from flashcore_ci.selftest.model import Defect, Detection

ROUNDS = INTERIM_LOOKS[1]
"""The first look that can give SLOWER."""
DRIFT_PROCESSES = 5


def detect(defect: Defect, suite: Suite, noises: Iterable[Noise]) -> Detection:
    """Apply the gate's own rule to the recorded rounds."""
    gate = next((gate for gate in suite.gates if gate.id == defect.gate), None)
    limit = next((limit.value for limit in gate.limits if fnmatchcase(defect.target, limit.on)), None) if gate else None
    kind = gate.evidence if gate else Kind.COMPARISON
    rows = sum(kind in workload.collect for workload in suite.workloads)
    for noise in noises:
        recorded = noise.of(defect.target)
        pairs = next((one for one in recorded.planted if one.percent == defect.slowdown), None) if recorded else None
        if gate is not None and recorded is not None and pairs is not None and limit is not None:
            decide = _drift if gate.statistic is Statistic.DRIFT else partial(_slowdown, noise)
            code = decide(recorded, pairs, limit=limit, rows=rows)
            is_blocking = _severity(gate, defect.target) is Severity.BLOCKING
            return Detection(defect=defect, reason=code, red=code in FAILING and is_blocking, seconds=None)
    return Detection(defect=defect, reason="never asked", red=False, seconds=None)


def _severity(gate: Gate, target: str) -> Severity:
    return next(limit.severity for limit in gate.limits if fnmatchcase(target, limit.on))


def _drift(of: WorkloadNoise, pairs: Pairs, *, limit: float, rows: int) -> Code:
    """Take the first A/A processes as the baseline, and as many slowed ones as a run of the suite has."""
    primary = primary_scale(of.roof)
    before, now = getattr(of.same, primary)[:DRIFT_PROCESSES], getattr(pairs.head, primary)[:DRIFT_PROCESSES]
    return no_drift.decide(no_drift.estimate_drift(before, now), limit=limit, rows=rows)[1]


def _slowdown(noise: Noise, of: WorkloadNoise, pairs: Pairs, *, limit: float, rows: int) -> Code:
    primary = primary_scale(of.roof)
    time = None if primary is Scale.TIME else _rounds(pairs, Scale.TIME)
    noises = (priors(noise, primary).get(of.workload), priors(noise, Scale.TIME).get(of.workload))
    margin = math.log1p(limit / 100.0)
    return sequential_test.decide(_rounds(pairs, primary), time, margin=margin, rows=rows, noise=noises).code


def _rounds(pairs: Pairs, scale: Scale) -> Rounds:
    base, head = (getattr(series, scale)[:ROUNDS] for series in (pairs.base, pairs.head))
    return Rounds(base=base, head=head)
