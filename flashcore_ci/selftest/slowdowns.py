"""Judge the slowdowns that were planted when the noise was recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fnmatch import fnmatchcase

from flashcore_ci.judge.stats import sequential_test
from flashcore_ci.judge.stats.paired_estimate import priors
from flashcore_ci.judge.stats.sequential_test import INTERIM_LOOKS, Rounds
from flashcore_ci.model.codes import FAILING
from flashcore_ci.model.metrics import Scale, primary_scale
from flashcore_ci.model.noise import Noise, WorkloadNoise
from flashcore_ci.model.noise import Planted as Pairs
from flashcore_ci.model.suite import Kind, Suite
from flashcore_ci.selftest.model import Defect, Detection

ROUNDS = INTERIM_LOOKS[1]
"""The first look that can give SLOWER."""


def detect(defect: Defect, suite: Suite, noises: Iterable[Noise]) -> Detection:
    """Apply the gate's own rule to the recorded rounds."""
    gate = next((gate for gate in suite.gates if gate.id == defect.gate), None)
    limit = next((limit.value for limit in gate.limits if fnmatchcase(defect.target, limit.on)), None) if gate else None
    rows = sum(Kind.COMPARISON in workload.collect for workload in suite.workloads)
    for noise in noises:
        recorded = noise.of(defect.target)
        pairs = next((one for one in recorded.planted if one.percent == defect.slowdown), None) if recorded else None
        if recorded is not None and pairs is not None and limit is not None:
            decision = _decision(noise, recorded, pairs, limit=limit, rows=rows)
            return Detection(defect=defect, reason=decision.code, red=decision.code in FAILING, seconds=None)
    return Detection(defect=defect, reason="never asked", red=False, seconds=None)


def _decision(noise: Noise, of: WorkloadNoise, pairs: Pairs, *, limit: float, rows: int) -> sequential_test.Decision:
    primary = primary_scale(of.roof)
    time = None if primary is Scale.TIME else _rounds(pairs, Scale.TIME)
    noises = (priors(noise, primary).get(of.workload), priors(noise, Scale.TIME).get(of.workload))
    margin = math.log1p(limit / 100.0)
    return sequential_test.decide(_rounds(pairs, primary), time, margin=margin, rows=rows, noise=noises)


def _rounds(pairs: Pairs, scale: Scale) -> Rounds:
    base, head = (getattr(series, scale)[:ROUNDS] for series in (pairs.base, pairs.head))
    return Rounds(base=base, head=head)
