"""Small builders of records for tests: give what the test is about, the rest is ordinary.

The default world: the subject ``scale`` with one entry function ``scale_f32`` and two workloads, ``big`` (memory roof,
timed and profiled) and ``small`` (balanced, only checked).
"""

from __future__ import annotations

from dataclasses import replace

from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import (
    BuildEvidence,
    CompileError,
    Device,
    EntryBuild,
    Evidence,
    Finding,
    Identity,
    Observation,
    Provenance,
)
from flashcore_ci.model.identity import static_identity, workload_identity
from flashcore_ci.model.plan import Check, Excluded, Plan
from flashcore_ci.model.reading import Measured, Missing, Reading, Samples
from flashcore_ci.model.subject import BuildSpec, Description, EntrySpec, Problem
from flashcore_ci.model.suite import (
    STATIC_KINDS,
    Gate,
    Kind,
    Limit,
    Protocol,
    Ridge,
    Roof,
    Rule,
    Scope,
    Severity,
    Statistic,
    SubjectRef,
    Suite,
    Waiver,
    Workload,
    scope_of,
)
from flashcore_ci.model.verdict import Origin, Outcome, Reason, Report, Verdict

LIVE_KINDS = tuple(kind for kind in Kind if kind not in STATIC_KINDS)


def make_workload(workload="big", **changes) -> Workload:
    values = {
        "id": workload,
        "subject": "scale",
        "params": (("n", 1024),),
        "roof": Roof.MEMORY,
        "seed": 0,
        "collect": LIVE_KINDS,
        "tags": (),
    }
    return Workload(**{**values, **changes})


SMALL = make_workload("small", roof=Roof.BALANCED, params=(("n", 7),), collect=(Kind.CORRECTNESS, Kind.SANITIZER))


def make_limit(value=0.0, unit="count", **changes) -> Limit:
    values = {"on": "*", "value": value, "unit": unit, "severity": Severity.BLOCKING, "why": ""}
    return Limit(**{**values, **changes})


def make_gate(gate="finite", **changes) -> Gate:
    values = {
        "id": gate,
        "title": f"the gate {gate}",
        "evidence": Kind.CORRECTNESS,
        "metric": "finite/bad-values",
        "statistic": Statistic.VALUE,
        "min_samples": 1,
        "rule": Rule.EQUAL,
        "limits": (make_limit(),),
        "on": ("*",),
        "roofs": (),
        "tags": (),
        "why": "because",
        "owner": "kernels",
    }
    return Gate(**{**values, **changes})


BUILD = make_gate("build", evidence=Kind.BUILD, metric="build/errors")
SPILLS = make_gate("spills", evidence=Kind.RESOURCES, metric="spills/bytes", limits=(make_limit(unit="byte"),))
FINITE = make_gate("finite")
MEMCHECK = make_gate("memcheck", evidence=Kind.SANITIZER, metric="memcheck/findings")
SOL_DRAM = make_gate(
    "sol-dram",
    evidence=Kind.PROFILE,
    metric="sol/dram",
    rule=Rule.AT_LEAST,
    limits=(make_limit(85.0, "%"),),
    roofs=(Roof.MEMORY,),
)
STABILITY = make_gate(
    "stability",
    evidence=Kind.TIMING,
    metric="cycles/gpu/cold",
    statistic=Statistic.RELATIVE_STD,
    min_samples=5,
    rule=Rule.LESS,
    limits=(make_limit(2.0, "%"),),
    roofs=(Roof.MEMORY,),
)
GATES = (BUILD, SPILLS, FINITE, MEMCHECK, SOL_DRAM, STABILITY)


def make_protocol(**changes) -> Protocol:
    return Protocol(**{"timing_processes": 5, "repeats": 3, "timeouts": (), **changes})


def make_suite(**changes) -> Suite:
    values = {
        "name": "tiny",
        "file": "gates/tiny.toml",
        "subjects": (SubjectRef(name="scale", file="kernel/subjects/scale.py"),),
        "workloads": (make_workload("big"), SMALL),
        "gates": GATES,
        "waivers": (),
        "ridge": Ridge(device="NVIDIA H200", flops=989e12, bandwidth=4.8e12),
        "protocol": make_protocol(),
    }
    return Suite(**{**values, **changes})


def make_entry_spec(symbol="scale_f32", **changes) -> EntrySpec:
    values = {"symbol": symbol, "source": f"kernel/{symbol}.cu", "max_registers": 64, "dynamic_shared_bytes": 0}
    return EntrySpec(**{**values, **changes})


def make_description(subject="scale", workloads=("big", "small"), entries=("scale_f32",), **changes) -> Description:
    values = {
        "subject": subject,
        "file": f"kernel/subjects/{subject}.py",
        "build": BuildSpec(
            library=f"lib{subject}.so",
            launchers=(f"kernel/{subject}.cu",),
            includes=("kernel/include",),
            binding=(f"kernel/{subject}.py",),
            entries=tuple(make_entry_spec(symbol) for symbol in entries),
        ),
        "problems": tuple(make_problem(workload, entries=entries) for workload in workloads),
    }
    return Description(**{**values, **changes})


def make_problem(workload="big", **changes) -> Problem:
    """One FLOP a byte: far to the left of every ridge."""
    return Problem(**{"workload": workload, "flops": 1e9, "bytes": 1e9, "entries": ("scale_f32",), **changes})


def make_check(gate=FINITE, target="big", **changes) -> Check:
    values = {
        "gate": gate,
        "limit": gate.limits[0],
        "scope": scope_of(gate.evidence),
        "target": target,
        "subject": "scale",
    }
    return Check(**{**values, **changes})


CHECKS = (
    make_check(BUILD, "scale"),
    make_check(SPILLS, "scale_f32"),
    make_check(FINITE, "big"),
    make_check(FINITE, "small"),
    make_check(MEMCHECK, "big"),
    make_check(SOL_DRAM, "big"),
    make_check(STABILITY, "big"),
)


def make_plan(checks=CHECKS, **changes) -> Plan:
    """A plan over the workloads of ``make_suite``, cut to those that ``checks`` name."""
    suite = make_suite()
    targets = {check.target for check in checks}
    values = {
        "suite": suite.name,
        "suite_file": suite.file,
        "checks": tuple(checks),
        "excluded": (Excluded(gate="sol-dram", target="small", why="its roof is balanced, the gate is for memory"),),
        "workloads": tuple(workload for workload in suite.workloads if workload.id in targets),
        "descriptions": (make_description(),),
        "protocol": suite.protocol,
    }
    return Plan(**{**values, **changes})


def make_entry_build(symbol="scale_f32", **changes) -> EntryBuild:
    values = {
        "symbol": symbol,
        "source": f"kernel/{symbol}.cu",
        "digest": f"code of {symbol}",
        "registers": 32,
        "highest_register": 30,
        "spill_store_bytes": 0,
        "spill_load_bytes": 0,
        "stack_bytes": 0,
        "static_shared_bytes": 0,
        "dynamic_shared_bytes": 0,
        "opcodes": (("LDG", 8), ("STG", 4)),
        "waits": 0,
        "warnings": (),
    }
    return EntryBuild(**{**values, **changes})


def make_build(subject="scale", **changes) -> BuildEvidence:
    values = {
        "subject": subject,
        "compiler": "nvcc 13.0.88",
        "options": ("-O3",),
        "library": f"lib{subject}.so",
        "library_digest": "library",
        "launcher": "launcher",
        "binding": "binding",
        "source": "source",
        "entries": (make_entry_build(),),
    }
    return BuildEvidence(**{**values, **changes})


COMPILE_ERROR = CompileError(file="kernel/scale_f32.cu", line=12, message='identifier "sclae" is undefined')
FAILED_BUILD = make_build(entries=(), error=COMPILE_ERROR)


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
}
GOOD_SAMPLES = (
    ("time/gpu/cold", Samples(values=(0.650, 0.653, 0.648, 0.651, 0.655), unit="ms")),
    ("cycles/gpu/cold", Samples(values=(1.1200, 1.1204, 1.1198, 1.1201, 1.1203), unit="Mcycle")),
    ("clock/sm", Samples(values=(1722.0, 1715.0, 1728.0, 1720.0, 1711.0), unit="MHz")),
)


def good_observation(plan: Plan, build: BuildEvidence, kind: Kind, target: str, **changes) -> Observation:
    """What a healthy run would see of one workload, bound to ``build``."""
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
    """What a clean compile shows of a subject (``build``) or an entry function (``resources``)."""
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
    """Evidence that turns every check of ``plan`` (over the subject ``scale``) green."""
    plan = plan or make_plan()
    builds = builds or (make_build(),)
    wanted = dict.fromkeys((check.gate.evidence, check.target) for check in plan.checks)
    observations = tuple(
        (good_static if kind in STATIC_KINDS else good_observation)(plan, builds[0], kind, target) for kind, target in wanted
    )
    return make_evidence(**{"builds": tuple(builds), "observations": observations, **changes})


def make_evidence(**changes) -> Evidence:
    values = {"provenance": make_provenance(), "builds": (make_build(),), "observations": ()}
    return Evidence(**{**values, **changes})


def with_reading(evidence: Evidence, kind: Kind, target: str, metric: str, reading: Reading) -> Evidence:
    """The same evidence with one reading exchanged."""

    def exchanged(observation: Observation) -> Observation:
        if (observation.kind, observation.target) != (kind, target):
            return observation
        rest = tuple(pair for pair in observation.readings if pair[0] != metric)
        return replace(observation, readings=(*rest, (metric, reading)))

    return replace(evidence, observations=tuple(exchanged(observation) for observation in evidence.observations))


def make_waiver(gate="finite", target="big", **changes) -> Waiver:
    values = {
        "gate": gate,
        "target": target,
        "reason": "known, see the tuning log",
        "owner": "kernels",
        "expires": "2026-12-31",
    }
    return Waiver(**{**values, **changes})


RECORDED = Origin(kind="recorded", detail="on NVIDIA H200, driver 580.159.04, 2026-11-21")
LIVE = Origin(kind="live", detail="on NVIDIA H200, driver 580.159.04, 2026-11-21")


def make_verdict(gate="finite", target="big", outcome=Outcome.PASS, **changes) -> Verdict:
    values = {
        "gate": gate,
        "title": f"the gate {gate}",
        "evidence": Kind.CORRECTNESS,
        "target": target,
        "scope": Scope.WORKLOAD,
        "subject": "scale",
        "outcome": outcome,
        "severity": Severity.BLOCKING,
        "blocks": outcome in {Outcome.FAIL, Outcome.INCONCLUSIVE},
        "deferred": False,
        "reason": Reason(code=Code.WITHIN_LIMIT, message="0 count == 0 count"),
        "reading": Measured(value=0.0, unit="count"),
        "rule": Rule.EQUAL,
        "limit": 0.0,
        "unit": "count",
        "origin": LIVE,
        "why": "because",
        "seconds": 1.5,
    }
    return Verdict(**{**values, **changes})


def verdicts_of_every_kind() -> tuple[Verdict, ...]:
    """PASS, FAIL with findings, advisory FAIL, INCONCLUSIVE, deferred INCONCLUSIVE and WAIVED."""
    busy = "pid 4711 (python) uses this GPU"
    return (
        make_verdict("finite", "big"),
        make_verdict(
            "memcheck",
            "big",
            Outcome.FAIL,
            evidence=Kind.SANITIZER,
            reading=Measured(value=1.0, unit="count"),
            reason=Reason(code=Code.OVER_LIMIT, message="1 count is not == 0 count", facts=(("launches", "2"),)),
            next_step="mend the kernel",
            findings=(
                Finding(
                    tool="memcheck",
                    message="Invalid __global__ read of size 16 bytes",
                    kernel="scale_f32",
                    file="kernel/scale.cuh",
                    line=42,
                ),
            ),
            notes=("3 more findings like this one",),
        ),
        make_verdict(
            "sol-dram",
            "big",
            Outcome.FAIL,
            evidence=Kind.PROFILE,
            severity=Severity.ADVISORY,
            blocks=False,
            reading=Measured(value=71.25, unit="%"),
            reason=Reason(code=Code.UNDER_LIMIT, message="71.25 % is not >= 85 %"),
            rule=Rule.AT_LEAST,
            limit=85.0,
            unit="%",
            origin=RECORDED,
        ),
        make_verdict(
            "stability",
            "big",
            Outcome.INCONCLUSIVE,
            evidence=Kind.TIMING,
            reading=Missing(code=Code.GPU_BUSY, message=busy),
            reason=Reason(code=Code.GPU_BUSY, message=busy),
            rule=Rule.LESS,
            limit=2.0,
            unit="%",
            next_step="end them",
        ),
        make_verdict(
            "finite",
            "small",
            Outcome.INCONCLUSIVE,
            blocks=False,
            deferred=True,
            reading=Missing(code=Code.STALE_EVIDENCE, message="machine code changed"),
            reason=Reason(code=Code.STALE_EVIDENCE, message="machine code changed"),
            origin=Origin(kind="none"),
        ),
        make_verdict(
            "spills",
            "scale_f32",
            Outcome.WAIVED,
            evidence=Kind.RESOURCES,
            scope=Scope.ENTRY,
            blocks=False,
            reading=Measured(value=16.0, unit="byte"),
            reason=Reason(code=Code.OVER_LIMIT, message="16 byte is not == 0 byte"),
            unit="byte",
            notes=("waived until 2026-12-31 by kernels: known, see the tuning log",),
        ),
    )


def make_report(verdicts=None, **changes) -> Report:
    values = {
        "suite": "tiny",
        "tool": "flashcore-ci 0.1.0",
        "as_of": "2026-11-21T08:00:00Z",
        "outcome": Outcome.FAIL,
        "exit_code": 10,
        "headline": "FAIL: 2 of 6 checks block this merge",
        "verdicts": verdicts_of_every_kind() if verdicts is None else tuple(verdicts),
        "excluded": (Excluded(gate="sol-dram", target="small", why="its roof is balanced, the gate is for memory"),),
        "waivers": (make_waiver("spills", "scale_f32"),),
        "builds": (make_build(),),
        "provenance": make_provenance(),
        "notes": ("a note",),
    }
    return Report(**{**values, **changes})
