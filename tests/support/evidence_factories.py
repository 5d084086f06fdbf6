"""Small builders of evidence over the world of ``factories``: single observations, and all that a healthy run finds."""

from __future__ import annotations

from dataclasses import replace

from factories import make_build, make_plan

from flashcore_ci.model.evidence import BuildEvidence, Device, Evidence, Identity, Observation, Provenance
from flashcore_ci.model.identity import static_identity, workload_identity
from flashcore_ci.model.plan import Plan
from flashcore_ci.model.reading import Measured, Reading, Samples
from flashcore_ci.model.suite import STATIC_KINDS, Kind


def make_identity(**changes) -> Identity:
    parts = ("machine_code", "launcher", "binding", "subject", "workload", "collector")
    return Identity(**{**{part: part for part in parts}, **changes})


def make_observation(kind=Kind.CORRECTNESS, target="big", **changes) -> Observation:
    return Observation(**{"kind": kind, "target": target, "identity": make_identity(), **changes})


def make_device(**changes) -> Device:
    values = {
        "name": "NVIDIA H200",
        "uuid": "GPU-00000000-0000-0000-0000-000000000000",
        "driver": "580.159.04",
        "compute_capability": "9.0",
        "multiprocessors": 132,
        "memory": 150_754_820_096,
        "l2": 62_914_560,
    }
    return Device(**{**values, **changes})


def make_provenance(**changes) -> Provenance:
    values = {
        "collected_at": "2026-11-21T08:00:00Z",
        "device": make_device(),
        "tools": (("compute-sanitizer", "2026.4"), ("ncu", "2025.3.1")),
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "dirty": False,
        "clock_policy": "not locked",
        "version": "0.1.0",
    }
    return Provenance(**{**values, **changes})


GOOD_READINGS: dict[Kind, tuple[tuple[str, Reading], ...]] = {
    Kind.CORRECTNESS: (
        ("diff/max", Measured(value=0.0005, unit="abs")),
        ("error/ratio", Measured(value=0.5, unit="ratio")),
        ("finite/bad-values", Measured(value=0.0, unit="count")),
        ("repeat/differing-runs", Measured(value=0.0, unit="count")),
    ),
    Kind.SANITIZER: (
        ("memcheck/findings", Measured(value=0.0, unit="count")),
        ("memcheck/launches", Measured(value=2.0, unit="count")),
    ),
    Kind.PROFILE: (("sol/dram", Measured(value=91.5, unit="%")), ("sol/sm", Measured(value=12.0, unit="%"))),
    Kind.TIMING: (),
    Kind.COMPARISON: (),
}
GOOD_SAMPLES = (
    ("time/gpu/cold", Samples(values=(0.650, 0.653, 0.648, 0.651, 0.655), unit="ms")),
    ("cycles/gpu/cold", Samples(values=(1.1200, 1.1204, 1.1198, 1.1201, 1.1203), unit="Mcycle")),
    ("clock/sm", Samples(values=(1722.0, 1715.0, 1728.0, 1720.0, 1711.0), unit="MHz")),
)


def good_observation(plan: Plan, build: BuildEvidence, kind: Kind, target: str, **changes) -> Observation:
    """Return what a healthy run observes on one workload, bound to ``build``."""
    workload = next(workload for workload in plan.workloads if workload.id == target)
    problem = plan.description(workload.subject).problem(target)
    identity = workload_identity(kind, workload, problem, build, plan.protocol)
    return make_observation(
        kind,
        target,
        **{
            "identity": identity or make_identity(),
            "readings": GOOD_READINGS[kind],
            "samples": GOOD_SAMPLES if kind is Kind.TIMING else (),
            "seconds": 1.5,
            **changes,
        },
    )


def good_static(plan: Plan, build: BuildEvidence, kind: Kind, target: str, **changes) -> Observation:
    """Return what a clean build shows of a subject (``build``) or an entry function (``resources``)."""
    symbols = [entry.symbol for entry in build.entries] if kind is Kind.BUILD else [target]
    reading = ("build/errors", "count") if kind is Kind.BUILD else ("spills/bytes", "byte")
    return make_observation(
        kind,
        target,
        **{
            "identity": static_identity(kind, build, symbols, plan.protocol),
            "readings": ((reading[0], Measured(value=0.0, unit=reading[1])),),
            **changes,
        },
    )


def good_evidence(plan: Plan | None = None, builds=None, **changes) -> Evidence:
    """Return evidence that turns every check of ``plan`` (over the subject ``scale``) green."""
    plan = plan or make_plan()
    builds = builds or (make_build(),)
    targets = dict.fromkeys((check.gate.evidence, check.target) for check in plan.checks)
    observations = tuple(
        (good_static if kind in STATIC_KINDS else good_observation)(plan, builds[0], kind, target) for kind, target in targets
    )
    return make_evidence(**{"builds": tuple(builds), "observations": observations, **changes})


def make_evidence(**changes) -> Evidence:
    values = {"provenance": make_provenance(), "builds": (make_build(),), "observations": ()}
    return Evidence(**{**values, **changes})


def with_reading(evidence: Evidence, kind: Kind, target: str, metric: str, reading: Reading) -> Evidence:
    """Return the evidence with another value of one reading."""

    def exchange(observation: Observation) -> Observation:
        if (observation.kind, observation.target) != (kind, target):
            return observation
        rest = tuple(pair for pair in observation.readings if pair[0] != metric)
        return replace(observation, readings=(*rest, (metric, reading)))

    return replace(evidence, observations=tuple(exchange(observation) for observation in evidence.observations))
