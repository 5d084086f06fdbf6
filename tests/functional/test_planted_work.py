"""Law 4, with kernels that really do more work: rounds recorded on an H200 by ``calibrate`` turn both gates red.

The kernels are in kernel/planted; how much slower each is was confirmed in cycles when it was recorded.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from comparing import COMPUTE, NO_DRIFT, NO_SLOWER, comparison, plan_of
from evidence_factories import good_observation, make_evidence, make_provenance
from factories import make_build, make_check, make_limit
from judging import judged
from replayed import ROOT

from flashcore_ci.judge.references import References
from flashcore_ci.model.baseline import Baseline, BaselineRow
from flashcore_ci.model.evidence import Provenance
from flashcore_ci.model.noise import Noise, Planted, Series, WorkloadNoise
from flashcore_ci.model.reading import Samples
from flashcore_ci.model.suite import Kind
from flashcore_ci.store import record_files

NOISE = record_files.read(Noise, ROOT / "gates/noise/nvidia-h200.json")
UNITS = {"time/gpu/cold": ("ms", "ms"), "cycles/gpu/cold": ("megacycles", "Mcycle"), "clock/sm": ("mhz", "MHz")}
CASES = [
    pytest.param(workload, planted, id=f"{workload.workload}+{planted.percent:g}%")
    for workload in NOISE.workloads
    for planted in workload.planted
    if planted.percent == 5.0
]


def test_there_are_such_recordings() -> None:
    assert len(CASES) >= 4


def as_big(workload: WorkloadNoise) -> Noise:
    """The recording as that of the test world's one workload."""
    return replace(NOISE, workloads=(replace(workload, workload="big"),))


def where() -> Provenance:
    return replace(make_provenance(), clock_policy=NOISE.clock_policy)


def samples(series: Series, prefix: str = "") -> tuple[tuple[str, Samples], ...]:
    return tuple((f"{prefix}{name}", Samples(values=getattr(series, ours), unit=unit)) for name, (ours, unit) in UNITS.items())


def no_slower(workload: WorkloadNoise, base: Series, head: Series) -> tuple[str, str]:
    shape = replace(COMPUTE, roof=workload.roof)
    plan = plan_of(make_check(replace(NO_SLOWER, limits=(make_limit(1.0, "%"),))), workload=shape)
    observation = comparison((*samples(base, "base/"), *samples(head, "head/")), plan=plan)
    evidence = make_evidence(observations=(observation,), provenance=where())
    (verdict,) = judged(evidence, plan=plan, references=References(noises=(as_big(workload),))).verdicts
    return verdict.outcome, verdict.reason.code


def no_drift(workload: WorkloadNoise, base: Series, head: Series) -> tuple[str, str]:
    plan = plan_of(make_check(NO_DRIFT), workload=replace(COMPUTE, roof=workload.roof))
    observation = good_observation(plan, make_build(), Kind.TIMING, "big", samples=samples(head))
    row = BaselineRow(
        workload="big",
        collected_at="2026-11-20T00:00:00Z",
        commit=NOISE.commit,
        asked=observation.identity.workload,
        collector=observation.identity.collector,
        ms=base.ms,
        megacycles=base.megacycles,
    )
    held = Baseline(device=NOISE.device, driver=NOISE.driver, clock_policy=NOISE.clock_policy, rows=(row,))
    evidence = make_evidence(observations=(observation,), provenance=where())
    (verdict,) = judged(evidence, plan=plan, references=References(noises=(as_big(workload),), baselines=(held,))).verdicts
    return verdict.outcome, verdict.reason.code


@pytest.mark.parametrize(("workload", "planted"), CASES)
def test_five_per_cent_of_real_work_are_slower(workload: WorkloadNoise, planted: Planted) -> None:
    assert no_slower(workload, planted.base, planted.head) == ("FAIL", "slower")


@pytest.mark.parametrize(("workload", "planted"), CASES)
def test_five_per_cent_of_real_work_are_a_drift(workload: WorkloadNoise, planted: Planted) -> None:
    assert no_drift(workload, planted.base, planted.head) == ("FAIL", "drifted")


@pytest.mark.parametrize(("workload", "planted"), CASES)
def test_the_same_kernel_is_neither(workload: WorkloadNoise, planted: Planted) -> None:
    odd, even = (halved(workload.same, start) for start in (1, 0))
    assert no_slower(workload, even, odd)[0] == "PASS"
    assert no_drift(workload, planted.base, even)[0] == "PASS"


def halved(series: Series, start: int) -> Series:
    """Twelve processes, every other one."""
    columns = {name: getattr(series, name)[start:24:2] for name in ("process", "ms", "megacycles", "mhz")}
    return Series(**columns)
