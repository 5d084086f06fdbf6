"""Samples for docs/evidence.md: comparisons of recorded processes, and of simulated machines."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rival_rules import RULES, ProcessSamples

from flashcore_ci.judge.stats.distributions import f_quantile
from flashcore_ci.judge.stats.paired_estimate import Prior, priors
from flashcore_ci.judge.stats.sequential_test import FINAL_CODES, INTERIM_LOOKS, ErrorBudget, Rounds, decide, primary_share
from flashcore_ci.model.codes import FAILING, PASSING, Code
from flashcore_ci.model.metrics import Scale, primary_scale
from flashcore_ci.model.noise import Noise, Planted, Series
from flashcore_ci.model.suite import Roof

Draw = list[tuple[int, int]]
"""Positions in base's and in head's series, one pair a round."""

TRIALS = 1000
SIMULATED: dict[str, Any] = {
    "margin": math.log1p(0.003),
    "rows": 16,
    "noise": (Prior(variance=2e-6, df=20.0), None),  # independent scatter of 0.1 % per process, which is wrong for most kinds
}
KINDS: dict[str, Callable[[random.Random, int], tuple[float, float]]] = {  # log cycles and log clock of one process by number
    "independent noise": lambda source, _: (source.gauss(0.0, 1e-3), source.gauss(0.0, 5e-3)),
    "drift": lambda source, process: (1e-3 * process + source.gauss(0.0, 1e-3), source.gauss(0.0, 5e-3)),
    "clock droop": lambda source, process: (source.gauss(0.0, 1e-3), -0.06 * process / 24 + source.gauss(0.0, 1.5e-2)),
    "two speeds": lambda source, _: (source.gauss(0.0, 2e-4) + 0.02 * source.randint(0, 1), source.gauss(0.0, 5e-3)),
    "heavy tails": lambda source, _: (source.gauss(0.0, 1e-3) * (8 if source.random() < 0.05 else 1), source.gauss(0.0, 5e-3)),  # noqa: PLR2004
    "twice as noisy as recorded": lambda source, _: (source.gauss(0.0, 2e-3), source.gauss(0.0, 1e-2)),
}


def final_code(scales: Sequence[Sequence[Sequence[float]]], **rule: Any) -> Code:
    """Apply our rule to (base, head) of the primary scale and perhaps of time, look by look."""
    code = Code.UNDECIDED
    for look in INTERIM_LOOKS:
        primary, *time = [Rounds(base=tuple(base[:look]), head=tuple(head[:look])) for base, head in scales]
        code = decide(primary, time[0] if time else None, **rule).code
        if code in FINAL_CODES:
            break
    return code


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

    @property
    def median_ms(self) -> float:
        """Milliseconds of the median process."""
        return sorted(self.same.ms)[len(self.same.ms) // 2]

    def verdict(self, base: Series, head: Series, draw: Draw, slowdown: float = 0.0) -> Code:
        """Return the code of the final look. ``slowdown`` (log ratio) is added to head."""
        pair = sides(base, head, draw, slowdown)
        scales = [[getattr(side, scale) for side in pair] for scale in (Scale.CYCLES, Scale.TIME)]
        return final_code(scales if self.compute_bound else scales[1:], margin=self.margin, rows=self.rows, noise=self.priors)


def rows_of(noise: Noise, margins: dict[str, float]) -> tuple[Row, ...]:
    """Return every recorded workload with a margin (%). They share alpha."""
    by_scale = {scale: priors(noise, scale) for scale in Scale}
    return tuple(
        Row(
            workload=recorded.workload,
            roof=recorded.roof,
            margin=math.log1p(margins[recorded.workload] / 100.0),
            rows=len(margins),
            priors=(by_scale[primary_scale(recorded.roof)].get(recorded.workload), by_scale[Scale.TIME].get(recorded.workload)),
            same=recorded.same,
            planted=recorded.planted,
        )
        for recorded in noise.workloads
        if recorded.workload in margins
    )


def draws(source: random.Random, count: int, times: int) -> Iterator[Draw]:
    """Draw rounds of two consecutive processes in random order, with replacement, so slow drift cancels."""
    for _ in range(times):
        draw = []
        for _ in range(INTERIM_LOOKS[-1]):
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
    """Return all rounds of the draw. ``slowdown`` (log ratio) is added to head."""
    factor = math.exp(slowdown)
    return (
        ProcessSamples(ms=[base.ms[i] for i, _ in draw], megacycles=[base.megacycles[i] for i, _ in draw]),
        ProcessSamples(ms=[factor * head.ms[j] for _, j in draw], megacycles=[factor * head.megacycles[j] for _, j in draw]),
    )


def interval(hits: int, trials: int, alpha: float = 0.025) -> tuple[float, float]:
    """Clopper-Pearson interval of a rate (Biometrika 26(4), 1934), by quantiles of F."""
    low, high = 0.0, 1.0
    if hits:
        low = hits / (hits + (trials - hits + 1) * f_quantile(alpha, 2.0 * (trials - hits + 1), 2.0 * hits))
    if hits < trials:
        f = f_quantile(alpha, 2.0 * (hits + 1), 2.0 * (trials - hits))
        high = (hits + 1) * f / (trials - hits + (hits + 1) * f)
    return low, high


def simulate(kind: str) -> dict[str, tuple[int, int, int]]:
    """Count of ``TRIALS``, for each rule: identical code slower, undecided (ours only), +1 % slower."""
    source, found = random.Random(kind), Counter[tuple[str, str, int]]()
    for _ in range(TRIALS):
        logs: tuple[list[tuple[float, float]], ...] = ([], [])
        for number in range(INTERIM_LOOKS[-1]):
            for turn, side in enumerate(source.sample((0, 1), 2)):
                logs[side].append(KINDS[kind](source, 2 * number + turn))
        for level, shift in enumerate((0.0, math.log(1.01))):
            base, head = (
                ProcessSamples(
                    ms=[math.exp(cycles + by - clock) for cycles, clock in values],
                    megacycles=[math.exp(cycles + by) for cycles, _ in values],
                )
                for values, by in zip(logs, (0.0, shift), strict=True)
            )
            code = final_code([(base.megacycles, head.megacycles), (base.ms, head.ms)], **SIMULATED)
            found["**flashcore-ci**", "slower", level] += code in FAILING
            found["**flashcore-ci**", "undecided", level] += code not in FAILING | PASSING
            for name, rule in RULES.items():
                found[name, "slower", level] += rule(base, head)
    return {
        name: (found[name, "slower", 0], found[name, "undecided", 0], found[name, "slower", 1])
        for name in ("**flashcore-ci**", *RULES)
    }
