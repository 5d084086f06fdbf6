"""Hold the dossier of the shared reports: made-up measurements of their workloads."""

from __future__ import annotations

import math

from flashcore_ci.model.dossier import Dossier, Excerpt, Trace
from flashcore_ci.model.evidence import Identity, Observation
from flashcore_ci.model.reading import Measured, Samples
from flashcore_ci.model.subject import BuildSpec, Description, EntrySpec, Problem
from flashcore_ci.model.suite import Kind, Ridge, Roof, Workload

TIMED = ("prefill-fp16-b16-h16-s2048-d64", "prefill-fp16-b4-h16-s8192-d128")
CHECKED = ("gqa-bf16-b2-h32-s1023-d128", "small-fp16-s113-d64")
STREAM = "stream-2gib"
ENTRY = "flashcore_attention_fp16_d64"
WORK = {TIMED[0]: (2.7e11, 2.7e8), TIMED[1]: (2.2e12, 5.4e8), STREAM: (3.6e8, 2.1e9)}
IDENTITY = Identity(machine_code="m", launcher="l", binding="b", subject="s", workload="w", collector="c")


def workload(name: str) -> Workload:
    return Workload(
        id=name,
        subject="attention",
        params=(("b", 16), ("causal", False), ("dtype", "fp16")),
        roof=Roof.MEMORY if name == STREAM else Roof.COMPUTE if name in TIMED else Roof.BALANCED,
        seed=0,
        collect=(Kind.CORRECTNESS, Kind.PROFILE, Kind.TIMING) if name in WORK else (Kind.CORRECTNESS,),
    )


def timing(name: str, megacycles: float) -> Observation:
    cycles = tuple(megacycles * (1 + off / 1000) for off in (0.0, 0.4, -0.3, 0.2, 0.1))
    clock = (1733.0, 1722.0, 1731.0, 1726.0, 1729.0)
    return Observation(
        kind=Kind.TIMING,
        target=name,
        identity=IDENTITY,
        readings=(
            ("blocks/kept", Measured(value=63.0, unit="count")),
            ("blocks/dropped", Measured(value=2.0, unit="count")),
            ("power/gpu", Measured(value=651.4, unit="W")),
            ("temperature/gpu", Measured(value=53.0, unit="C")),
        ),
        samples=(
            ("time/gpu/cold", Samples(values=tuple(c / m * 1e3 for c, m in zip(cycles, clock, strict=True)), unit="ms")),
            ("cycles/gpu/cold", Samples(values=cycles, unit="Mcycle")),
            ("clock/sm", Samples(values=clock, unit="MHz")),
        ),
        notes=("clocks were held by: power cap",),
    )


def profile(name: str, sm: float, dram: float) -> Observation:
    values = {"sol/sm": sm, "sol/dram": dram, "sol/tensor": sm, "sol/xu": sm / 2}
    readings = tuple((metric, Measured(value=value, unit="%")) for metric, value in values.items())
    return Observation(kind=Kind.PROFILE, target=name, identity=IDENTITY, readings=readings)


def comparison(name: str, megacycles: float) -> Observation:
    """Return eight rounds in which the head takes 1 % more."""
    base = tuple(megacycles * (1 + math.sin(number) / 500) for number in range(8))
    head = tuple(value * (1.01 + math.cos(number) / 1000) for number, value in enumerate(base))
    sides = (("base", base), ("head", head))
    samples = tuple((f"{side}/cycles/gpu/cold", Samples(values=values, unit="Mcycle")) for side, values in sides)
    return Observation(kind=Kind.COMPARISON, target=name, identity=IDENTITY, base=IDENTITY, samples=samples)


def trace(name: str, process: int) -> Trace:
    seconds = tuple(number / 20 for number in range(20))
    mhz = tuple(1980.0 - 250.0 * (1 - math.exp(-6 * at)) + 4 * process for at in seconds)
    return Trace(workload=name, process=process, seconds=seconds, mhz=mhz)


DOSSIER = Dossier(
    suite_file="gates/hopper.toml",
    ridge=Ridge(device="NVIDIA H200", flops=989e12, bandwidth=4.8e12),
    workloads=tuple(workload(name) for name in (*TIMED, STREAM, *CHECKED)),
    descriptions=(
        Description(
            subject="attention",
            file="kernel/subjects/attention.py",
            build=BuildSpec(
                library="libattention.so",
                launchers=(),
                includes=(),
                binding=(),
                entries=(EntrySpec(symbol=ENTRY, source="kernel/attention.cu", max_registers=160, dynamic_shared_bytes=148_480),),
            ),
            problems=tuple(
                Problem(workload=name, flops=flops, bytes=size, entries=(ENTRY,)) for name, (flops, size) in WORK.items()
            ),
        ),
    ),
    observations=(
        timing(TIMED[0], 0.85),
        timing(TIMED[1], 4.9),
        profile(TIMED[0], 60.8, 11.0),
        profile(TIMED[1], 78.25, 3.6),
        comparison(TIMED[0], 0.85),
    ),
    traces=tuple(trace(name, process) for name in TIMED for process in range(3)),
    excerpts=(
        Excerpt(
            file="kernel/include/flashcore/attention/body.cuh",
            line=112,
            first=110,
            lines=("  const int row = lane / 4;", "", "  shared[row] = total;", "", "  return shared[row ^ 1] < total;"),
        ),
    ),
)

DOSSIERS = {
    name: Dossier() if name == "error" else DOSSIER for name in ("green", "red", "inconclusive", "shades", "hostile", "error")
}
