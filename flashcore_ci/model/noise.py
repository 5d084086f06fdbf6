"""How much a machine's timings scatter when nothing has changed: recorded by ``calibrate``, and read by every comparison.

All that is kept are samples; rates and resolutions are computed from them, so that a better rule needs no new recording.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from flashcore_ci.model.evidence import Device, Identity
from flashcore_ci.model.suite import Roof

NOISE_SCHEMA = "noise-v1"
PLANTED_PERCENT = (0.3, 0.5, 1.0, 2.0, 5.0)
"""The slow-downs that ``calibrate`` plants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One workload in fresh processes, one value a process: median ms, Mcycle and SM MHz.

    ``process`` counts the processes of the whole recording from 0, upwards: two series belong to one process where the
    numbers agree, and what a process failed to measure is a gap in them.
    """

    process: tuple[int, ...]
    ms: tuple[float, ...]
    megacycles: tuple[float, ...]
    mhz: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse columns of different lengths, processes out of order, and values that are no measurements."""
        columns = (self.ms, self.megacycles, self.mhz)
        if any(len(column) != len(self.process) for column in columns):
            raise ValueError("every process has a time, cycles and a clock")
        if list(self.process) != sorted(set(self.process)):
            raise ValueError("processes are numbered upwards")
        if not all(math.isfinite(value) and value > 0 for column in columns for value in column):
            raise ValueError("a measurement is finite and above zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """The kernel against a build of it with extra work, in rounds: ``base`` and ``head`` are paired by index.

    ``percent`` is what was asked for; ``confirmed`` (%) by how much this level's cycles exceed those without extra work in the same
    process, the median over all processes.
    """

    percent: float
    confirmed: float
    base: Series
    head: Series

    def __post_init__(self) -> None:
        """Refuse rounds with one side."""
        if len(self.base.process) != len(self.head.process):
            raise ValueError("every round has a base and a head")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadNoise:
    """One workload: the same binary in ``same``, in the order of the processes, and the planted slow-downs, if any were tried."""

    workload: str
    roof: Roof
    identity: Identity
    same: Series
    planted: tuple[Planted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sitting:
    """One call of ``calibrate``: when, on which GPU, and how many processes it added to the recording."""

    collected_at: str
    device: Device
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The content of ``gates/noise/<sku>.json``: one recording on GPUs of one product, driver and clock policy.

    ``protocol`` are the numbers that the timing worker ran by, by name.
    """

    device: str
    driver: str
    clock_policy: str
    protocol: tuple[tuple[str, float], ...]
    commit: str
    sittings: tuple[Sitting, ...]
    workloads: tuple[WorkloadNoise, ...]
    schema: Literal["noise-v1"] = "noise-v1"

    def of(self, workload: str) -> WorkloadNoise | None:
        """What was recorded of this workload, if anything."""
        return next((noise for noise in self.workloads if noise.workload == workload), None)
