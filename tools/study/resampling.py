"""Resample comparisons from recorded processes and apply the rule of ``no-slower`` to each."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from rival_rules import ProcessSamples

from flashcore_ci.judge.stats.distributions import f_quantile
from flashcore_ci.judge.stats.paired_estimate import Prior, priors
from flashcore_ci.judge.stats.sequential_test import FINAL_CODES, INTERIM_LOOKS, ErrorBudget, Rounds, decide, primary_share
from flashcore_ci.model.codes import Code
from flashcore_ci.model.metrics import Scale, primary_scale
from flashcore_ci.model.noise import Noise, Planted, Series
from flashcore_ci.model.suite import Roof

Draw = list[tuple[int, int]]
"""Positions in base's and in head's series, one pair a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One workload of the gate. ``margin`` is a log ratio."""

    workload: str
    roof: Roof
    margin: float
    rows: int
    priors: tuple[Prior | None, Prior | None]
    same: Series
    planted: tuple[Planted, ...]

    @property
    def compute_bound(self) -> bool:
        """Whether cycles are the primary scale, and time the secondary one."""
        return primary_scale(self.roof) is Scale.CYCLES

    @property
    def budget(self) -> ErrorBudget:
        """The error budget of the last look."""
        return ErrorBudget.of(rows=self.rows, share=primary_share(with_time=self.compute_bound))

    def verdict(self, base: Series, head: Series, draw: Draw, slowdown: float = 0.0) -> Code:
        """Return the code of the final look. ``slowdown`` (log ratio) is added to head."""
        factor = math.exp(slowdown)
        scales = []
        for name in (Scale.CYCLES, Scale.TIME) if self.compute_bound else (Scale.TIME,):
            first, second = getattr(base, name), getattr(head, name)
            scales.append((tuple(first[i] for i, _ in draw), tuple(factor * second[j] for _, j in draw)))
        code = Code.UNDECIDED
        for look in INTERIM_LOOKS:
            rounds = [Rounds(base=base_values[:look], head=head_values[:look]) for base_values, head_values in scales]
            time = rounds[1] if self.compute_bound else None
            code = decide(rounds[0], time, margin=self.margin, rows=self.rows, noise=self.priors).code
            if code in FINAL_CODES:
                break
        return code


def rows_of(noise: Noise, margins: dict[str, float]) -> tuple[Row, ...]:
    """Return every recorded workload with a margin (%). They share alpha."""
    by_scale = {scale: priors(noise, scale) for scale in Scale}
    rows = []
    for recorded in noise.workloads:
        name = recorded.workload
        if name not in margins:
            continue
        rows.append(
            Row(
                workload=name,
                roof=recorded.roof,
                margin=math.log1p(margins[name] / 100.0),
                rows=len(margins),
                priors=(by_scale[primary_scale(recorded.roof)].get(name), by_scale[Scale.TIME].get(name)),
                same=recorded.same,
                planted=recorded.planted,
            )
        )
    return tuple(rows)


def draws(source: random.Random, count: int, times: int, rounds: int = INTERIM_LOOKS[-1]) -> Iterator[Draw]:
    """Draw rounds of two consecutive processes in random order, with replacement, so slow drift cancels."""
    for _ in range(times):
        draw = []
        for _ in range(rounds):
            first = source.randrange(count - 1)
            draw.append((first, first + 1) if source.random() < 0.5 else (first + 1, first))  # noqa: PLR2004 - a coin
        yield draw


def planted_draws(source: random.Random, count: int, times: int) -> Iterator[Draw]:
    """Draw rounds of a planted slowdown, with at least two distinct ones at the first look."""
    for _ in range(times):
        draw = [0]
        while len(set(draw[: INTERIM_LOOKS[0]])) == 1:
            draw = [source.randrange(count) for _ in range(INTERIM_LOOKS[-1])]
        yield [(index, index) for index in draw]


def sides(base: Series, head: Series, draw: Draw, slowdown: float = 0.0) -> tuple[ProcessSamples, ProcessSamples]:
    """Return the draw as other tools get it: all rounds at once."""
    factor = math.exp(slowdown)
    return (
        ProcessSamples(ms=[base.ms[i] for i, _ in draw], megacycles=[base.megacycles[i] for i, _ in draw]),
        ProcessSamples(ms=[factor * head.ms[j] for _, j in draw], megacycles=[factor * head.megacycles[j] for _, j in draw]),
    )


def interval(hits: int, trials: int, alpha: float = 0.025) -> tuple[float, float]:
    """Clopper-Pearson interval of a rate (Biometrika 26(4), 1934), by quantiles of F."""
    low = high = 0.0
    if hits:
        f = f_quantile(alpha, 2.0 * (trials - hits + 1), 2.0 * hits)
        low = hits / (hits + (trials - hits + 1) * f)
    if hits == trials:
        return low, 1.0
    f = f_quantile(alpha, 2.0 * (hits + 1), 2.0 * (trials - hits))
    high = (hits + 1) * f / (trials - hits + (hits + 1) * f)
    return low, high
