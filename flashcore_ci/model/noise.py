"""The recorded noise of a machine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from flashcore_ci.model.evidence import Device, Identity
from flashcore_ci.model.suite import Roof

PLANTED_PERCENT = (0.3, 0.5, 1.0, 2.0, 5.0)
"""The slowdowns (%) that ``calibrate`` plants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Fresh processes, one value each: median ms, Mcycle, SM MHz, and ``process``.

    Equal numbers in two series of a recording mean one process.
    """

    process: tuple[int, ...]
    ms: tuple[float, ...]
    megacycles: tuple[float, ...]
    mhz: tuple[float, ...]

    def __post_init__(self) -> None:
        columns = (self.ms, self.megacycles, self.mhz)
        if any(len(column) != len(self.process) for column in columns):
            raise ValueError("every process has a time, cycles and a clock")
        if list(self.process) != sorted(set(self.process)):
            raise ValueError("processes are numbered upwards")
        if not all(math.isfinite(value) and value > 0 for column in columns for value in column):
            raise ValueError("a measurement is finite and above zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """Rounds of the kernel (``base``) and of extra work (``head``), paired by index.

    ``percent`` is the requested slowdown, ``confirmed`` (%) the median excess of cycles over the kernel in the same process.
    """

    percent: float
    confirmed: float
    base: Series
    head: Series

    def __post_init__(self) -> None:
        if len(self.base.process) != len(self.head.process):
            raise ValueError("every round has a base and a head")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadNoise:
    """One workload: A/A processes in ``same``, and planted slowdowns."""

    workload: str
    roof: Roof
    identity: Identity
    same: Series
    planted: tuple[Planted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingSession:
    """One call of ``calibrate``, and how many processes it added."""

    collected_at: str
    device: Device
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The content of ``gates/noise/<sku>.json``. ``protocol`` has the timing worker's parameters."""

    device: str
    driver: str
    clock_policy: str
    protocol: tuple[tuple[str, float], ...]
    commit: str
    sittings: tuple[RecordingSession, ...]
    workloads: tuple[WorkloadNoise, ...]
    schema: Literal["noise-v1"] = "noise-v1"

    def __post_init__(self) -> None:
        if len({noise.workload for noise in self.workloads}) != len(self.workloads):
            raise ValueError("a workload has two recordings")

    def of(self, workload: str) -> WorkloadNoise | None:
        """Find the recording of this workload."""
        return next((noise for noise in self.workloads if noise.workload == workload), None)
