"""The metrics that collectors report and gates judge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from flashcore_ci.model.suite import Kind, Roof

SIDES = ("base", "head")
"""The sides of a comparison. A round is one fresh process of each side, paired by index."""
MAX_SHARE = 110.0
"""Per cent of a peak. Counter errors are a few per cent. Larger shares come from altered reports."""
SANITIZER_TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")


class Scale(StrEnum):
    """A scale of speed, by its column in noise and baselines."""

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
    """Return the scale that decides: time if memory-bound, else cycles."""
    return Scale.TIME if roof is Roof.MEMORY else Scale.CYCLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The kind and unit of a metric. Values are from 0 to ``maximum``.

    ``sampled``: one value per fresh process, else a single reading. ``lower_is_better``: a rule ``>=`` is refused.
    """

    kind: Kind
    unit: str
    sampled: bool = False
    lower_is_better: bool = False
    maximum: float = math.inf


METRICS: dict[str, Metric] = {
    "build/errors": Metric(kind=Kind.BUILD, unit="count", lower_is_better=True),
    "spills/bytes": Metric(kind=Kind.RESOURCES, unit="byte", lower_is_better=True),
    "stack/bytes": Metric(kind=Kind.RESOURCES, unit="byte", lower_is_better=True),
    "shared/bytes": Metric(kind=Kind.RESOURCES, unit="byte"),
    "local-memory/instructions": Metric(kind=Kind.RESOURCES, unit="count", lower_is_better=True),
    "registers/budget-used": Metric(kind=Kind.RESOURCES, unit="%", lower_is_better=True),
    "instructions/violations": Metric(kind=Kind.RESOURCES, unit="count", lower_is_better=True),
    "instructions/count": Metric(kind=Kind.MACHINE_CODE, unit="count", lower_is_better=True),
    "diff/max": Metric(kind=Kind.CORRECTNESS, unit="abs", lower_is_better=True),
    "error/ratio": Metric(kind=Kind.CORRECTNESS, unit="ratio", lower_is_better=True),
    "finite/bad-values": Metric(kind=Kind.CORRECTNESS, unit="count", lower_is_better=True),
    "repeat/differing-runs": Metric(kind=Kind.CORRECTNESS, unit="count", lower_is_better=True),
    **{f"{tool}/findings": Metric(kind=Kind.SANITIZER, unit="count", lower_is_better=True) for tool in SANITIZER_TOOLS},
    **{f"{tool}/launches": Metric(kind=Kind.SANITIZER, unit="count") for tool in SANITIZER_TOOLS},
    "sol/sm": Metric(kind=Kind.PROFILE, unit="%", maximum=MAX_SHARE),
    "sol/dram": Metric(kind=Kind.PROFILE, unit="%", maximum=MAX_SHARE),
    "sol/tensor": Metric(kind=Kind.PROFILE, unit="%", maximum=MAX_SHARE),
    "sol/xu": Metric(kind=Kind.PROFILE, unit="%", maximum=MAX_SHARE),
    "launches/call": Metric(kind=Kind.PROFILE, unit="count"),
    "cycles/sm": Metric(kind=Kind.PROFILE, unit="cycle"),
    "time/gpu/profiled": Metric(kind=Kind.PROFILE, unit="ms"),
    "time/gpu/cold": Metric(kind=Kind.TIMING, unit="ms", sampled=True),
    "cycles/gpu/cold": Metric(kind=Kind.TIMING, unit="Mcycle", sampled=True),
    "clock/sm": Metric(kind=Kind.TIMING, unit="MHz", sampled=True),
    "drift/primary": Metric(kind=Kind.TIMING, unit="%", sampled=True, lower_is_better=True),
    "slowdown/primary": Metric(kind=Kind.COMPARISON, unit="%", sampled=True, lower_is_better=True),
    **{f"{side}/time/gpu/cold": Metric(kind=Kind.COMPARISON, unit="ms", sampled=True) for side in SIDES},
    **{f"{side}/cycles/gpu/cold": Metric(kind=Kind.COMPARISON, unit="Mcycle", sampled=True) for side in SIDES},
    **{f"{side}/clock/sm": Metric(kind=Kind.COMPARISON, unit="MHz", sampled=True) for side in SIDES},
    "comparison/same-code": Metric(kind=Kind.COMPARISON, unit="count"),
}
"""A gate on any other name is a suite error. Collectors may report other readings, which are not judged."""
