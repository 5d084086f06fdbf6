"""What measurements are compared with, in addition to limits: recorded noise and baselines."""

from __future__ import annotations

from dataclasses import dataclass, field

from flashcore_ci.judge.stats.paired_estimate import Prior, priors
from flashcore_ci.model.baseline import Baseline
from flashcore_ci.model.evidence import Provenance
from flashcore_ci.model.metrics import Scale, primary_scale
from flashcore_ci.model.noise import Noise
from flashcore_ci.model.suite import Roof


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """All noise recordings and baselines of a checkout."""

    noises: tuple[Noise, ...] = ()
    baselines: tuple[Baseline, ...] = ()

    def noise(self, provenance: Provenance) -> Noise | None:
        """Find the recording for product and clock policy, of any driver (F test)."""
        wanted = (provenance.device.name if provenance.device else None, provenance.clock_policy)
        return next((noise for noise in self.noises if (noise.device, noise.clock_policy) == wanted), None)

    def knows(self, provenance: Provenance) -> bool:
        """Whether some baseline is for this product, whatever its driver and clocks."""
        name = plain_name(provenance.device.name) if provenance.device else ""
        return any(plain_name(baseline.device) == name for baseline in self.baselines)

    def baseline(self, provenance: Provenance) -> Baseline | None:
        """Find the baseline for product, driver and clock policy."""
        return next((baseline for baseline in self.baselines if baseline.is_for(provenance)), None)


def plain_name(device: str) -> str:
    """Return a product's name in letters and digits alone, so that no spelling makes it another product."""
    return "".join(filter(str.isalnum, device.lower()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonContext:
    """What a comparison is judged with. ``rows`` comparisons share alpha. ``vouched``: the GPU has its true name."""

    roof: Roof
    rows: int
    provenance: Provenance
    vouched: bool = False
    references: References = field(default_factory=References)

    @property
    def primary(self) -> Scale:
        """The primary scale."""
        return primary_scale(self.roof)

    def prior(self, workload: str, scale: Scale) -> Prior | None:
        """Find the prior of this workload."""
        noise = self.references.noise(self.provenance)
        return priors(noise, scale).get(workload) if noise else None
