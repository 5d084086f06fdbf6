"""What a recording of noise means before anything is compared: which margin holds, what would be seen, how often it would be wrong.

By the same quantiles as the verdict, at its last look, where the recorded noise is today's. docs/measurement.md has what
resampling the recorded processes says instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flashcore_ci.judge.references import CYCLES, TIME
from flashcore_ci.judge.stats.distributions import t_quantile, t_tail
from flashcore_ci.judge.stats.paired_estimate import Prior, priors
from flashcore_ci.judge.stats.sequential_test import LOOKS, Errors, detectable, percent, primary_share, resolution
from flashcore_ci.model.noise import PLANTED_PERCENT, Noise
from flashcore_ci.model.suite import Roof

LEAST = 1e-8
"""Below this a rate rests on the shape of a tail that nobody has seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One workload, in per cent (rates are shares): its scatter, margin, the margin that holds, what is seen 19 times in 20.

    ``false_alarms``: how often unchanged code is SLOWER; ``detected``: how often each planted slow-down is.
    """

    workload: str
    scatter: float
    margin: float
    holds: float
    seen: float
    false_alarms: float
    detected: tuple[tuple[float, float], ...]

    def __str__(self) -> str:
        """One line for a person."""
        levels = ", ".join(f"+{level:g} % {100.0 * rate:.3g} %" for level, rate in self.detected)
        false = f"{100.0 * self.false_alarms:.1g} %" if self.false_alarms > LEAST else f"under {100.0 * LEAST:.0e} %"
        return (
            f"{self.workload}: a process scatters by {self.scatter:.2g} %; margin {self.margin:g} %, from {self.holds:.2g} % on one "
            f"holds; seen from +{self.seen:.2g} %; unchanged code SLOWER {false}; called SLOWER: {levels}"
        )


def sights(noise: Noise, margins: Mapping[str, float]) -> Iterator[Sight]:
    """One for each recorded workload that has a margin (%); all of ``margins`` share the errors."""
    for recorded in noise.workloads:
        scale = TIME if recorded.roof is Roof.MEMORY else CYCLES
        prior = priors(noise, scale).get(recorded.workload)
        if prior is None or recorded.workload not in margins:
            continue
        margin = math.log1p(margins[recorded.workload] / 100.0)
        errors = Errors.of(rows=len(margins), share=primary_share(beside=scale != TIME))
        yield Sight(
            workload=recorded.workload,
            scatter=100.0 * math.sqrt(prior.variance / 2.0),
            margin=margins[recorded.workload],
            holds=percent(resolution(prior, errors)),
            seen=percent(detectable(prior, margin, errors)),
            false_alarms=convicted(prior, 0.0, margin, errors),
            detected=tuple((level, convicted(prior, math.log1p(level / 100.0), margin, errors)) for level in PLANTED_PERCENT),
        )


def convicted(noise: Prior, slowdown: float, margin: float, errors: Errors) -> float:
    """How often a slow-down (log ratio) is SLOWER after the last look."""
    freedom, error = noise.freedom + LOOKS[-1] - 1, math.sqrt(noise.variance / LOOKS[-1])
    needed = max(margin + t_quantile(errors.within, freedom) * error, t_quantile(errors.unchanged, freedom) * error)
    return t_tail((needed - slowdown) / error, freedom)
