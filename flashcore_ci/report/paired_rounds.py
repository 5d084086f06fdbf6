"""Extract the paired rounds of base and head."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from flashcore_ci.model.dossier import Dossier
from flashcore_ci.model.metrics import SIDES, primary_scale
from flashcore_ci.model.suite import Kind

BASE, HEAD = SIDES


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedComparison:
    """Values of base and head in ``unit``, paired by round."""

    base: tuple[float, ...]
    head: tuple[float, ...]
    unit: str

    @property
    def change(self) -> float:
        """Return the median of head / base - 1, in per cent."""
        return 100.0 * (statistics.median(head / base for base, head in zip(self.base, self.head, strict=True)) - 1.0)


def comparison_of(dossier: Dossier, workload: str) -> SpeedComparison | None:
    """Return the workload's comparison, or None without paired rounds."""
    seen = dossier.observation(Kind.COMPARISON, workload)
    if seen is None:
        return None
    roof = next((known.roof for known in dossier.workloads if known.id == workload), None)
    metric = primary_scale(roof).metric
    samples = dict(seen.samples)
    base, head = samples.get(f"{BASE}/{metric}"), samples.get(f"{HEAD}/{metric}")
    if base is None or head is None or not base.values or len(base.values) != len(head.values):
        return None
    if min(*base.values, *head.values) <= 0:
        return None
    return SpeedComparison(base=base.values, head=head.values, unit=base.unit)
