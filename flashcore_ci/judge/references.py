"""What measurements are held against beside limits: the recorded noise of this kind of machine, and baselines."""

from __future__ import annotations

from dataclasses import dataclass, field

from flashcore_ci.judge.stats.paired_estimate import Prior, priors
from flashcore_ci.model.baseline import Baseline
from flashcore_ci.model.evidence import Provenance
from flashcore_ci.model.noise import Noise
from flashcore_ci.model.suite import Roof

TIME = "ms"
CYCLES = "megacycles"


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """All that the checkout holds; which of it applies depends on where the evidence is from."""

    noises: tuple[Noise, ...] = ()
    baselines: tuple[Baseline, ...] = ()

    def noise(self, provenance: Provenance) -> Noise | None:
        """The recording for this product and clock policy; the driver may be another, today's rounds notice if that matters."""
        name = provenance.device.name if provenance.device else None
        return next(
            (noise for noise in self.noises if (noise.device, noise.clock_policy) == (name, provenance.clock_policy)), None
        )

    def baseline(self, provenance: Provenance) -> Baseline | None:
        """The baseline for this product, driver and clock policy."""
        return next((baseline for baseline in self.baselines if baseline.is_for(provenance)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonContext:
    """What one comparison needs to know besides its samples: its roof, how many rows share the error, where it was measured."""

    roof: Roof
    rows: int
    provenance: Provenance
    references: References = field(default_factory=References)

    @property
    def primary(self) -> str:
        """The scale that is judged: a memory-bound kernel waits for memory, whose clock is not the SM's."""
        return TIME if self.roof is Roof.MEMORY else CYCLES

    def prior(self, workload: str, scale: str) -> Prior | None:
        """The recorded noise of this workload on this kind of machine."""
        noise = self.references.noise(self.provenance)
        return priors(noise, scale).get(workload) if noise else None
