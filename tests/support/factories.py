"""Build records for tests: name what the test is about, the rest has ordinary values.

The default world: the subject ``scale`` with one entry function ``scale_f32`` and two workloads, ``big`` (memory roof,
timed and profiled) and ``small`` (balanced, only checked).
"""

from __future__ import annotations

from flashcore_ci.model.evidence import BuildEvidence, CompileError, EntryBuild
from flashcore_ci.model.plan import Check, Excluded, Plan
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
    Severity,
    Statistic,
    SubjectRef,
    Suite,
    Waiver,
    Workload,
    scope_of,
)

LIVE_KINDS = tuple(kind for kind in Kind if kind not in STATIC_KINDS | {Kind.COMPARISON, Kind.MACHINE_CODE})


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
    """Return a problem with one FLOP per byte, below every ridge."""
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
        "preprocessed": "preprocessed",
        "host_objects": "host objects",
    }
    return BuildEvidence(**{**values, **changes})


COMPILE_ERROR = CompileError(file="kernel/scale_f32.cu", line=12, message='identifier "sclae" is undefined')
FAILED_BUILD = make_build(entries=(), error=COMPILE_ERROR)


def make_waiver(gate="finite", target="big", **changes) -> Waiver:
    values = {
        "gate": gate,
        "target": target,
        "reason": "known, see the tuning log",
        "owner": "kernels",
        "expires": "2026-12-31",
    }
    return Waiver(**{**values, **changes})
