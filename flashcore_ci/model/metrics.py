"""The metrics that collectors give and gates judge: one name, one kind of evidence, one unit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from flashcore_ci.model.suite import Kind, Roof

SIDES = ("base", "head")
"""The sides of a comparison. Their samples are paired by index: one fresh process of each side is a round."""
MOST_SHARE = 110.0
"""Per cent of a peak that a real reading stays below: the counters' own error is a few per cent, an altered report has no bound."""
SANITIZER_TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")


class Scale(StrEnum):
    """A scale of speed. The value is the name of its column in recordings of noise and in baselines."""

    TIME = "ms"
    CYCLES = "megacycles"

    @property
    def metric(self) -> str:
        """The metric that holds the samples."""
        return "time/gpu/cold" if self is Scale.TIME else "cycles/gpu/cold"

    @property
    def label(self) -> str:
        """The name of the scale in messages."""
        return self.name.lower()


def primary_scale(roof: Roof | None) -> Scale:
    """Return the scale that decides about a workload: time if it is memory-bound, else cycles.

    A lower SM clock does not change cycles. A memory-bound kernel waits for memory, which has a clock of its own.
    """
    return Scale.TIME if roof is Roof.MEMORY else Scale.CYCLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What a name stands for; no value of any metric is below 0, and none above ``most``.

    ``sampled``: one value for each fresh process, else a single reading. ``flaw``: it measures what is wrong, so that more of
    it is never better.
    """

    kind: Kind
    unit: str
    sampled: bool = False
    flaw: bool = False
    most: float = math.inf


METRICS: dict[str, Metric] = {
    "build/errors": Metric(kind=Kind.BUILD, unit="count", flaw=True),
    "spills/bytes": Metric(kind=Kind.RESOURCES, unit="byte", flaw=True),
    "stack/bytes": Metric(kind=Kind.RESOURCES, unit="byte", flaw=True),
    "shared/bytes": Metric(kind=Kind.RESOURCES, unit="byte"),
    "local-memory/instructions": Metric(kind=Kind.RESOURCES, unit="count", flaw=True),
    "registers/budget-used": Metric(kind=Kind.RESOURCES, unit="%", flaw=True),
    "instructions/violations": Metric(kind=Kind.RESOURCES, unit="count", flaw=True),
    "diff/max": Metric(kind=Kind.CORRECTNESS, unit="abs", flaw=True),
    "error/ratio": Metric(kind=Kind.CORRECTNESS, unit="ratio", flaw=True),
    "finite/bad-values": Metric(kind=Kind.CORRECTNESS, unit="count", flaw=True),
    "repeat/differing-runs": Metric(kind=Kind.CORRECTNESS, unit="count", flaw=True),
    **{f"{tool}/findings": Metric(kind=Kind.SANITIZER, unit="count", flaw=True) for tool in SANITIZER_TOOLS},
    **{f"{tool}/launches": Metric(kind=Kind.SANITIZER, unit="count") for tool in SANITIZER_TOOLS},
    "sol/sm": Metric(kind=Kind.PROFILE, unit="%", most=MOST_SHARE),
    "sol/dram": Metric(kind=Kind.PROFILE, unit="%", most=MOST_SHARE),
    "sol/tensor": Metric(kind=Kind.PROFILE, unit="%", most=MOST_SHARE),
    "sol/xu": Metric(kind=Kind.PROFILE, unit="%", most=MOST_SHARE),
    "launches/call": Metric(kind=Kind.PROFILE, unit="count"),
    "cycles/sm": Metric(kind=Kind.PROFILE, unit="cycle"),
    "time/gpu/profiled": Metric(kind=Kind.PROFILE, unit="ms"),
    "time/gpu/cold": Metric(kind=Kind.TIMING, unit="ms", sampled=True),
    "cycles/gpu/cold": Metric(kind=Kind.TIMING, unit="Mcycle", sampled=True),
    "clock/sm": Metric(kind=Kind.TIMING, unit="MHz", sampled=True),
    "drift/primary": Metric(kind=Kind.TIMING, unit="%", sampled=True, flaw=True),
    "slowdown/primary": Metric(kind=Kind.COMPARISON, unit="%", sampled=True, flaw=True),
    **{f"{side}/time/gpu/cold": Metric(kind=Kind.COMPARISON, unit="ms", sampled=True) for side in SIDES},
    **{f"{side}/cycles/gpu/cold": Metric(kind=Kind.COMPARISON, unit="Mcycle", sampled=True) for side in SIDES},
    **{f"{side}/clock/sm": Metric(kind=Kind.COMPARISON, unit="MHz", sampled=True) for side in SIDES},
    "comparison/same-code": Metric(kind=Kind.COMPARISON, unit="count"),
}
"""A gate on any other name is an error of the suite; collectors may give further readings, which nothing judges."""
