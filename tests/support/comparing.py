"""Comparisons with a known slowdown and a known scatter."""

import math
import random
from dataclasses import replace

from evidence_factories import good_observation, make_evidence, make_provenance
from factories import make_build, make_check, make_gate, make_limit, make_plan, make_workload
from judging import judged

from flashcore_ci.judge.references import ComparisonContext, References
from flashcore_ci.model.identity import workload_identity
from flashcore_ci.model.noise import Noise, Series, WorkloadNoise
from flashcore_ci.model.reading import Samples
from flashcore_ci.model.suite import Kind, Roof, Rule, Statistic

NO_SLOWER = make_gate(
    "no-slower",
    evidence=Kind.COMPARISON,
    metric="slowdown/primary",
    statistic=Statistic.SLOWDOWN,
    rule=Rule.AT_MOST,
    limits=(make_limit(0.3, "%"),),
)
NO_DRIFT = make_gate(
    "no-drift",
    evidence=Kind.TIMING,
    metric="drift/primary",
    statistic=Statistic.DRIFT,
    min_samples=3,
    rule=Rule.AT_MOST,
    limits=(make_limit(2.0, "%"),),
)
COMPUTE = make_workload("big", roof=Roof.COMPUTE, collect=tuple(Kind))
CHECK = make_check(NO_SLOWER)
BUILD = make_build()
BASE = make_build(entries=(replace(BUILD.entries[0], digest="base's code"),))


def plan_of(*checks, workload=COMPUTE):
    return replace(make_plan(checks or (CHECK,)), workloads=(workload,))


def lognormal(seed, count, centre=1.0, percent=0.0, noise=0.1):
    """Values whose logs have the standard deviation ``noise`` (%) around ``centre`` raised by ``percent``."""
    source = random.Random(seed)
    return tuple(centre * (1.0 + percent / 100.0) * math.exp(source.gauss(0.0, noise / 100.0)) for _ in range(count))


def samples_of(base, head, mhz=1700.0, head_mhz=None):
    """Samples of all kinds from megacycles."""
    clocks = {"base": mhz, "head": head_mhz or mhz}
    sides = {"base": base, "head": head}
    return tuple(
        sample
        for side, values in sides.items()
        for sample in (
            (f"{side}/cycles/gpu/cold", Samples(values=tuple(values), unit="Mcycle")),
            (f"{side}/time/gpu/cold", Samples(values=tuple(v / clocks[side] * 1e3 for v in values), unit="ms")),
            (f"{side}/clock/sm", Samples(values=(clocks[side],) * len(values), unit="MHz")),
        )
    )


def rounds(percent=0.0, count=8, noise=0.1, seed=1, **clocks):
    """Samples of ``count`` rounds with a slowdown of ``percent``."""
    return samples_of(lognormal(seed, count, noise=noise), lognormal(seed + 1000, count, 1.0, percent, noise), **clocks)


def comparison(samples, plan=None, base=BASE, **changes):
    """The observation of a comparison of ``base`` with ``BUILD``."""
    plan = plan or plan_of()
    workload = plan.workloads[0]
    problem = plan.description("scale").problem(workload.id)
    identity = workload_identity(Kind.COMPARISON, workload, problem, base, plan.protocol)
    return good_observation(plan, BUILD, Kind.COMPARISON, workload.id, samples=samples, base=identity, **changes)


def verdict_on(observation, *, check=CHECK, workload=COMPUTE, **keywords):
    """The verdict of one check on one observation."""
    return judged(make_evidence(observations=(observation,)), plan=plan_of(check, workload=workload), **keywords).verdicts[0]


def make_noise(percent=0.1, processes=40, seed=5, workload="big", **changes):
    """A recording on which a process scatters by ``percent``."""
    values = lognormal(seed, processes, noise=percent)
    series = Series(process=tuple(range(processes)), ms=values, megacycles=values, mhz=(1700.0,) * processes)
    identity = comparison(rounds()).identity
    row = WorkloadNoise(workload=workload, roof=Roof.COMPUTE, identity=identity, same=series)
    fields = {
        "device": "NVIDIA H200",
        "driver": "580.159.04",
        "clock_policy": "not locked",
        "protocol": (),
        "commit": "0" * 40,
        "sittings": (),
        "workloads": (row,),
    }
    return Noise(**{**fields, **changes})


def context(noise=None, rows=1, roof=Roof.COMPUTE):
    return ComparisonContext(
        roof=roof, rows=rows, provenance=make_provenance(), references=References(noises=(noise,) if noise else ())
    )
