"""What was fast once: timings that later ones are held against, so that many small slow-downs do not add up unseen.

A baseline is changed by ``flashcore-ci baseline propose`` and a review, never by the run that it judges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from flashcore_ci.model.evidence import Provenance

BASELINE_SCHEMA = "baseline-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRow:
    """One workload: a value for each fresh process. ``asked`` and ``collector`` are the digests that the evidence carried."""

    workload: str
    asked: str
    collector: str
    ms: tuple[float, ...]
    megacycles: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what cannot have been measured."""
        if not all(math.isfinite(value) and value > 0 for value in (*self.ms, *self.megacycles)):
            raise ValueError(f"{self.workload}: a measurement is finite and above zero")
        if len(self.ms) != len(self.megacycles) or len(self.ms) < 2:  # noqa: PLR2004 - one value has no spread
            raise ValueError(f"{self.workload}: every process has a time and cycles, and there are at least two")


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The content of ``gates/baselines/<sku>.json``: for one product, driver and clock policy."""

    device: str
    driver: str
    clock_policy: str
    collected_at: str
    commit: str
    rows: tuple[BaselineRow, ...]
    schema: Literal["baseline-v1"] = "baseline-v1"

    def of(self, workload: str) -> BaselineRow | None:
        """The row of this workload, if there is one."""
        return next((row for row in self.rows if row.workload == workload), None)

    def is_for(self, provenance: Provenance) -> bool:
        """Whether that run was on the same product, driver and clock policy."""
        device = provenance.device
        here = (device.name, device.driver, provenance.clock_policy) if device else None
        return here == (self.device, self.driver, self.clock_policy)
