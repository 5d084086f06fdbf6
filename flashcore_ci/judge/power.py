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
from flashcore_ci.judge.stats.sequential_test import (
    INTERIM_LOOKS,
    ErrorBudget,
    minimum_detectable_slowdown,
    percent,
    primary_share,
    resolvable_margin,
)
from flashcore_ci.model.noise import PLANTED_PERCENT, Noise
from flashcore_ci.model.suite import Roof

MIN_SHOWN_RATE = 1e-8
"""Below this a rate rests on the shape of a tail that nobody has seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPower:
    """One workload, in per cent (rates are shares): its scatter, margin, the margin that holds, what is seen 19 times in 20.

    ``false_alarm_rate``: how often unchanged code is SLOWER; ``power``: how often each planted slow-down is.
    """

    workload: str
    scatter: float
    margin: float
    resolvable_margin: float
    minimum_detectable_slowdown: float
    false_alarm_rate: float
    power: tuple[tuple[float, float], ...]

    def __str__(self) -> str:
        """One line for a person."""
        levels = ", ".join(f"+{level:g} % {100.0 * rate:.3g} %" for level, rate in self.power)
        false = (
            f"{100.0 * self.false_alarm_rate:.1g} %"
            if self.false_alarm_rate > MIN_SHOWN_RATE
            else f"under {100.0 * MIN_SHOWN_RATE:.0e} %"
        )
        return (
            f"{self.workload}: a process scatters by {self.scatter:.2g} %; margin {self.margin:g} %, from {self.resolvable_margin:.2g} % on one "
            f"holds; seen from +{self.minimum_detectable_slowdown:.2g} %; unchanged code SLOWER {false}; called SLOWER: {levels}"
        )


def analyse_power(noise: Noise, margins: Mapping[str, float]) -> Iterator[WorkloadPower]:
    """One for each recorded workload that has a margin (%); all of ``margins`` share the errors."""
    for recorded in noise.workloads:
        scale = TIME if recorded.roof is Roof.MEMORY else CYCLES
        prior = priors(noise, scale).get(recorded.workload)
        if prior is None or recorded.workload not in margins:
            continue
        margin = math.log1p(margins[recorded.workload] / 100.0)
        budget = ErrorBudget.of(rows=len(margins), share=primary_share(with_time=scale != TIME))
        yield WorkloadPower(
            workload=recorded.workload,
            scatter=100.0 * math.sqrt(prior.variance / 2.0),
            margin=margins[recorded.workload],
            resolvable_margin=percent(resolvable_margin(prior, budget)),
            minimum_detectable_slowdown=percent(minimum_detectable_slowdown(prior, margin, budget)),
            false_alarm_rate=power_at(prior, 0.0, margin, budget),
            power=tuple((level, power_at(prior, math.log1p(level / 100.0), margin, budget)) for level in PLANTED_PERCENT),
        )


def power_at(prior: Prior, slowdown: float, margin: float, budget: ErrorBudget) -> float:
    """How often a slow-down (log ratio) is SLOWER after the last look."""
    df, standard_error = prior.df + INTERIM_LOOKS[-1] - 1, math.sqrt(prior.variance / INTERIM_LOOKS[-1])
    needed = max(
        margin + t_quantile(budget.alpha_margin, df) * standard_error, t_quantile(budget.alpha_null, df) * standard_error
    )
    return t_tail((needed - slowdown) / standard_error, df)
