"""Power of ``no-slower`` at its last look, if today's noise is the recorded one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flashcore_ci.judge.stats import sequential_test
from flashcore_ci.judge.stats.paired_estimate import priors
from flashcore_ci.judge.stats.sequential_test import ErrorBudget, percent, power_at, primary_share
from flashcore_ci.model.metrics import Scale, primary_scale
from flashcore_ci.model.noise import PLANTED_PERCENT, Noise

MIN_SHOWN_RATE = 1e-8
"""A smaller rate would rest on a part of the tail that no test has covered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPower:
    """The power of ``no-slower`` on one workload: rates as shares, other numbers in %.

    ``scatter``: standard deviation of a process. ``false_alarm_rate``: of unchanged code. ``power``: (slowdown, rate of SLOWER).
    """

    workload: str
    scatter: float
    margin: float
    resolvable_margin: float
    minimum_detectable_slowdown: float
    false_alarm_rate: float
    power: tuple[tuple[float, float], ...]

    def __str__(self) -> str:
        rates = ", ".join(f"{100.0 * rate:.3g} % of +{slowdown:g} %" for slowdown, rate in self.power)
        is_shown = self.false_alarm_rate > MIN_SHOWN_RATE
        false = f"{100.0 * self.false_alarm_rate:.1g} %" if is_shown else f"under {100.0 * MIN_SHOWN_RATE:.0e} %"
        return (
            f"{self.workload}: scatter of a process {self.scatter:.2g} %, margin {self.margin:g} % "
            f"(smallest resolvable {self.resolvable_margin:.2g} %), "
            f"minimum detectable slowdown {self.minimum_detectable_slowdown:.2g} % (power 95 %), "
            f"false alarms {false}, detects {rates}"
        )


def analyse_power(noise: Noise, margins: Mapping[str, float]) -> Iterator[WorkloadPower]:
    """Analyse each recorded workload with a margin (%). All of ``margins`` share alpha."""
    for recorded in noise.workloads:
        scale = primary_scale(recorded.roof)
        prior = priors(noise, scale).get(recorded.workload)
        if prior is None or recorded.workload not in margins:
            continue
        margin = math.log1p(margins[recorded.workload] / 100.0)
        budget = ErrorBudget.of(rows=len(margins), share=primary_share(with_time=scale is not Scale.TIME))
        yield WorkloadPower(
            workload=recorded.workload,
            scatter=100.0 * math.sqrt(prior.variance / 2.0),
            margin=margins[recorded.workload],
            resolvable_margin=percent(sequential_test.resolvable_margin(prior, budget)),
            minimum_detectable_slowdown=percent(sequential_test.minimum_detectable_slowdown(prior, margin, budget)),
            false_alarm_rate=power_at(prior, 0.0, margin, budget),
            power=tuple((level, power_at(prior, math.log1p(level / 100.0), margin, budget)) for level in PLANTED_PERCENT),
        )
