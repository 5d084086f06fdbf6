"""The metrics that collectors give and gates judge: one name, one kind of evidence, one unit."""

from __future__ import annotations

from dataclasses import dataclass

from flashcore_ci.model.suite import Kind

SANITIZER_TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What a name stands for. ``sampled``: one value for each fresh process, else a single reading."""

    kind: Kind
    unit: str
    sampled: bool = False


METRICS: dict[str, Metric] = {
    "build/errors": Metric(kind=Kind.BUILD, unit="count"),
    "spills/bytes": Metric(kind=Kind.RESOURCES, unit="byte"),
    "stack/bytes": Metric(kind=Kind.RESOURCES, unit="byte"),
    "shared/bytes": Metric(kind=Kind.RESOURCES, unit="byte"),
    "local-memory/instructions": Metric(kind=Kind.RESOURCES, unit="count"),
    "registers/budget-used": Metric(kind=Kind.RESOURCES, unit="%"),
    "instructions/violations": Metric(kind=Kind.RESOURCES, unit="count"),
    "diff/max": Metric(kind=Kind.CORRECTNESS, unit="abs"),
    "error/ratio": Metric(kind=Kind.CORRECTNESS, unit="ratio"),
    "finite/bad-values": Metric(kind=Kind.CORRECTNESS, unit="count"),
    "repeat/differing-runs": Metric(kind=Kind.CORRECTNESS, unit="count"),
    **{f"{tool}/findings": Metric(kind=Kind.SANITIZER, unit="count") for tool in SANITIZER_TOOLS},
    **{f"{tool}/launches": Metric(kind=Kind.SANITIZER, unit="count") for tool in SANITIZER_TOOLS},
    "sol/sm": Metric(kind=Kind.PROFILE, unit="%"),
    "sol/dram": Metric(kind=Kind.PROFILE, unit="%"),
    "sol/tensor": Metric(kind=Kind.PROFILE, unit="%"),
    "sol/xu": Metric(kind=Kind.PROFILE, unit="%"),
    "cycles/sm": Metric(kind=Kind.PROFILE, unit="cycle"),
    "time/gpu/profiled": Metric(kind=Kind.PROFILE, unit="ms"),
    "time/gpu/cold": Metric(kind=Kind.TIMING, unit="ms", sampled=True),
    "cycles/gpu/cold": Metric(kind=Kind.TIMING, unit="Mcycle", sampled=True),
    "clock/sm": Metric(kind=Kind.TIMING, unit="MHz", sampled=True),
}
"""A gate on any other name is an error of the suite; collectors may give further readings, which nothing judges."""
