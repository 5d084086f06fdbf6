"""The metrics that collectors report and gates judge."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from flashcore_ci.model.suite import Kind, Roof

SIDES = ("base", "head")
"""The sides of a comparison. A round is one fresh process of each side, paired by index."""
ANCHOR = "anchor"
"""The third side of a comparison: the pinned build that every recorded commit is timed with."""
MAX_SHARE = 110.0
"""Per cent of a peak. Counter errors are a few per cent. Larger shares come from altered reports."""
LINK_BANDWIDTH, LINK_SHARE = "link/bandwidth", "link/share"
"""The second is computed from the first, which evidence holds, and from the suite's ``[ridge] link``."""
GROUP_METRICS = frozenset({"gpus/differing", "gpus/one-differing", "link/traffic", LINK_BANDWIDTH, LINK_SHARE, "gpus/speedup"})
"""What only a group of GPUs has."""
CASE_METRICS = frozenset({"cases/passed", "cases/wrong", "cases/refused"})
"""What only test cases of another project have."""
OPTIONAL_METRICS = GROUP_METRICS | CASE_METRICS | {"error/rms", "error/rms-ratio"}
"""What evidence may lack."""
SCATTER = "scatter/primary"
"""Judged on the samples of ``primary_scale``."""
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
    """The kind, unit and meaning of a metric. Values are from 0 to ``maximum``.

    ``sampled``: one value per fresh process, else a single reading. ``lower_is_better``: a rule ``>=`` is refused.
    """

    kind: Kind
    unit: str
    meaning: str = ""
    sampled: bool = False
    lower_is_better: bool = False
    maximum: float = math.inf


METRICS: dict[str, Metric] = {
    "build/errors": Metric(kind=Kind.BUILD, unit="count", meaning="the number of compile errors", lower_is_better=True),
    "spills/bytes": Metric(kind=Kind.RESOURCES, unit="byte", meaning="the size of register spills", lower_is_better=True),
    "stack/bytes": Metric(kind=Kind.RESOURCES, unit="byte", meaning="the stack per thread", lower_is_better=True),
    "shared/bytes": Metric(kind=Kind.RESOURCES, unit="byte", meaning="the shared memory per block"),
    "local-memory/instructions": Metric(
        kind=Kind.RESOURCES, unit="count", meaning="the number of local-memory instructions", lower_is_better=True
    ),
    "registers/budget-used": Metric(
        kind=Kind.RESOURCES, unit="%", meaning="the share of the declared registers that is used", lower_is_better=True
    ),
    "instructions/violations": Metric(
        kind=Kind.RESOURCES, unit="count", meaning="the number of missing or serialised instructions", lower_is_better=True
    ),
    "instructions/count": Metric(
        kind=Kind.MACHINE_CODE, unit="count", meaning="the number of machine instructions", lower_is_better=True
    ),
    "diff/max": Metric(
        kind=Kind.CORRECTNESS, unit="abs", meaning="the largest difference from PyTorch's result", lower_is_better=True
    ),
    "error/ratio": Metric(
        kind=Kind.CORRECTNESS, unit="ratio", meaning="the error over twice PyTorch's own", lower_is_better=True
    ),
    "error/rms": Metric(
        kind=Kind.CORRECTNESS, unit="ratio", meaning="the relative RMS error against float64", lower_is_better=True
    ),
    "error/rms-ratio": Metric(
        kind=Kind.CORRECTNESS, unit="ratio", meaning="the RMS error over the reference's own", lower_is_better=True
    ),
    "finite/bad-values": Metric(
        kind=Kind.CORRECTNESS, unit="count", meaning="the number of unwritten, NaN or infinite values", lower_is_better=True
    ),
    "repeat/differing-runs": Metric(
        kind=Kind.CORRECTNESS, unit="count", meaning="the number of runs with other bits", lower_is_better=True
    ),
    "gpus/differing": Metric(
        kind=Kind.CORRECTNESS, unit="count", meaning="the number of values that differ between GPUs", lower_is_better=True
    ),
    "gpus/one-differing": Metric(
        kind=Kind.CORRECTNESS,
        unit="count",
        meaning="the number of values that differ from those of one GPU",
        lower_is_better=True,
    ),
    "cases/passed": Metric(kind=Kind.CORRECTNESS, unit="count", meaning="the number of test cases that pass"),
    "cases/wrong": Metric(
        kind=Kind.CORRECTNESS, unit="count", meaning="the number of test cases with a wrong result", lower_is_better=True
    ),
    "cases/refused": Metric(
        kind=Kind.CORRECTNESS, unit="count", meaning="the number of test cases that are refused by name", lower_is_better=True
    ),
    "link/traffic": Metric(kind=Kind.CORRECTNESS, unit="ratio", meaning="the bytes received over those declared"),
    LINK_BANDWIDTH: Metric(kind=Kind.TIMING, unit="GB/s", meaning="the bandwidth of the messages alone"),
    LINK_SHARE: Metric(
        kind=Kind.TIMING, unit="%", meaning="the bandwidth of the messages alone, of the link's peak", maximum=MAX_SHARE
    ),
    "graph/launches": Metric(kind=Kind.TIMING, unit="count", meaning="the number of launches in the longer CUDA graph"),
    "gpus/speedup": Metric(kind=Kind.TIMING, unit="ratio", meaning="the time of one GPU over that of the group"),
    **{
        f"{tool}/findings": Metric(
            kind=Kind.SANITIZER, unit="count", meaning=f"the number of findings of {tool}", lower_is_better=True
        )
        for tool in SANITIZER_TOOLS
    },
    **{
        f"{tool}/launches": Metric(kind=Kind.SANITIZER, unit="count", meaning=f"the number of launches that {tool} checked")
        for tool in SANITIZER_TOOLS
    },
    "sol/sm": Metric(kind=Kind.PROFILE, unit="%", meaning="the SM throughput", maximum=MAX_SHARE),
    "sol/dram": Metric(kind=Kind.PROFILE, unit="%", meaning="the DRAM throughput", maximum=MAX_SHARE),
    "sol/tensor": Metric(kind=Kind.PROFILE, unit="%", meaning="the use of the tensor cores", maximum=MAX_SHARE),
    "sol/xu": Metric(kind=Kind.PROFILE, unit="%", meaning="the use of the XU pipe", maximum=MAX_SHARE),
    "launches/call": Metric(kind=Kind.PROFILE, unit="count", meaning="the number of launches per call"),
    "cycles/sm": Metric(kind=Kind.PROFILE, unit="cycle", meaning="the SM cycles under the profiler"),
    "time/gpu/profiled": Metric(kind=Kind.PROFILE, unit="ms", meaning="the time under the profiler"),
    "time/gpu/cold": Metric(kind=Kind.TIMING, unit="ms", meaning="the scatter of the time between processes", sampled=True),
    "cycles/gpu/cold": Metric(
        kind=Kind.TIMING, unit="Mcycle", meaning="the scatter of the cycles between processes", sampled=True
    ),
    "clock/sm": Metric(kind=Kind.TIMING, unit="MHz", meaning="the scatter of the SM clock between processes", sampled=True),
    SCATTER: Metric(
        kind=Kind.TIMING,
        unit="%",
        meaning="the scatter between processes, of the time if memory-bound, else cycles",
        sampled=True,
    ),
    "drift/primary": Metric(
        kind=Kind.TIMING, unit="%", meaning="the slowdown since the baseline", sampled=True, lower_is_better=True
    ),
    "slowdown/primary": Metric(
        kind=Kind.COMPARISON, unit="%", meaning="the slowdown since the base", sampled=True, lower_is_better=True
    ),
    **{
        f"{side}/time/gpu/cold": Metric(
            kind=Kind.COMPARISON, unit="ms", meaning=f"the scatter of the time of {side}", sampled=True
        )
        for side in SIDES
    },
    **{
        f"{side}/cycles/gpu/cold": Metric(
            kind=Kind.COMPARISON, unit="Mcycle", meaning=f"the scatter of the cycles of {side}", sampled=True
        )
        for side in SIDES
    },
    **{
        f"{side}/clock/sm": Metric(
            kind=Kind.COMPARISON, unit="MHz", meaning=f"the scatter of the SM clock of {side}", sampled=True
        )
        for side in SIDES
    },
    "comparison/same-code": Metric(kind=Kind.COMPARISON, unit="count", meaning="the equality of base and head"),
}
"""A gate on any other name is a suite error. Collectors may report other readings, which are not judged."""
