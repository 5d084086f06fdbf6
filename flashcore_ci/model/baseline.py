"""Baselines: reviewed timings that later runs are compared with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from flashcore_ci.model.evidence import Evidence, Provenance
from flashcore_ci.model.identity import how_timed
from flashcore_ci.model.suite import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRow:
    """One value per fresh process of one run. ``asked`` and ``collector`` are digests of its evidence."""

    workload: str
    collected_at: str
    commit: str
    asked: str
    collector: str
    ms: tuple[float, ...]
    megacycles: tuple[float, ...]

    def __post_init__(self) -> None:
        if not all(math.isfinite(value) and value > 0 for value in (*self.ms, *self.megacycles)):
            raise ValueError(f"{self.workload}: a measurement is finite and above zero")
        if len(self.ms) != len(self.megacycles) or len(self.ms) < 2:  # noqa: PLR2004 - a spread needs two values
            raise ValueError(f"{self.workload}: every process has a time and cycles, and there are at least two")


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The content of ``gates/baselines/<sku>.json``: for one product, driver and clock policy."""

    device: str
    driver: str
    clock_policy: str
    rows: tuple[BaselineRow, ...]
    schema: Literal["baseline-v1"] = "baseline-v1"

    def __post_init__(self) -> None:
        if len({row.workload for row in self.rows}) != len(self.rows):
            raise ValueError("a workload has two rows")

    def of(self, workload: str) -> BaselineRow | None:
        """Find the row of this workload."""
        return next((row for row in self.rows if row.workload == workload), None)

    @property
    def key(self) -> tuple[str, str, str]:
        """The kind of machine."""
        return (self.device, self.driver, self.clock_policy)

    def is_for(self, provenance: Provenance) -> bool:
        """Whether the run was on this kind of machine."""
        device = provenance.device
        return device is not None and self.key == (device.name, device.driver, provenance.clock_policy)


def propose(evidence: Evidence, present: Baseline | None) -> Baseline | None:
    """Return ``present`` with rows of this run, or None without any."""
    device = evidence.provenance.device
    rows = {row.workload: row for row in _rows(evidence)}
    if device is None or not rows:
        return None
    kept = {row.workload: row for row in present.rows} if present else {}
    merged, clocks = tuple(row for _, row in sorted({**kept, **rows}.items())), evidence.provenance.clock_policy
    return Baseline(device=device.name, driver=device.driver, clock_policy=clocks, rows=merged)


def _rows(evidence: Evidence) -> Iterator[BaselineRow]:
    for observation in evidence.observations:
        samples = dict(observation.samples)
        ms, megacycles = samples.get("time/gpu/cold"), samples.get("cycles/gpu/cold")
        if observation.kind is not Kind.TIMING or observation.missing or ms is None or megacycles is None or len(ms.values) <= 1:
            continue
        yield BaselineRow(
            workload=observation.target,
            collected_at=evidence.provenance.collected_at,
            commit=evidence.provenance.commit,
            asked=observation.identity.workload,
            collector=how_timed(observation),
            ms=ms.values,
            megacycles=megacycles.values,
        )
