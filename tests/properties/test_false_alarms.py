"""The false alarm rate of the rule on five kinds of simulated machines."""

import math
import random

import pytest

from flashcore_ci.judge.stats.common_clock import at_common_clock
from flashcore_ci.judge.stats.paired_estimate import Prior, estimate
from flashcore_ci.judge.stats.sequential_test import INTERIM_LOOKS, Rounds, decide
from flashcore_ci.model.codes import FAILING, Code

MARGIN = math.log1p(0.003)
ROWS = 16
RECORDED = Prior(variance=2e-6, df=20)  # 0.1 % a process
TRIALS = 1000


def independent(source, process):
    return source.gauss(0.0, 1e-3)


def drifting(source, process):
    return 1e-3 * process + source.gauss(0.0, 1e-3)  # 0.1 % slower from process to process


def heavy_tails(source, process):
    return source.gauss(0.0, 1e-3) * (8 if source.random() < 0.05 else 1)


def coin(source, process):
    return source.gauss(0.0, 2e-4) + 0.02 * source.randint(0, 1)


def noisier_today(source, process):
    return source.gauss(0.0, 2e-3)


def sequence(source, kind, droop=False):
    """Run the interim looks, with base and head in random order, until one is final."""
    cycles, times = ([], []), ([], [])
    level = 0.0
    for number in range(INTERIM_LOOKS[-1]):
        for turn, side in enumerate(source.sample((0, 1), 2)):
            log = kind(source, 2 * number + turn)
            level = 0.9 * level + source.gauss(0.0, 0.005) if droop else 0.0  # a clock that wanders by 1 %
            cycles[side].append(math.exp(log))
            times[side].append(math.exp(log + level))
        if number + 1 in INTERIM_LOOKS:
            found = decide(
                Rounds(base=tuple(cycles[0]), head=tuple(cycles[1])),
                Rounds(base=tuple(times[0]), head=tuple(times[1])),
                margin=MARGIN,
                rows=ROWS,
                noise=(RECORDED, None),
            )
            if found.code in FAILING | {Code.SAME, Code.FASTER}:
                break
    return found.code


@pytest.mark.parametrize("kind", [independent, drifting, heavy_tails, coin, noisier_today])
@pytest.mark.parametrize("droop", [False, True])
def test_unchanged_code_is_never_blocked(kind, droop):
    source = random.Random(f"{kind.__name__} {droop}")
    codes = [sequence(source, kind, droop) for _ in range(TRIALS)]
    assert not FAILING & set(codes)
    if kind is independent:
        assert codes.count(Code.SAME) >= 0.98 * len(codes)
    if kind is coin:
        assert codes.count(Code.BIMODAL) >= 0.9 * len(codes)


@pytest.mark.parametrize("rounds", [8, 12])
@pytest.mark.parametrize("error", [0.01, 0.05])
def test_the_bound_has_its_alpha_under_smyths_model(rounds, error):
    """Noise varies from day to day as in Smyth's model, under which the moderated t is exact."""
    source, prior, trials = random.Random(f"level {rounds} {error}"), Prior(variance=1e-6, df=8.0), 12_000
    wrong = 0
    for _ in range(trials):
        scale = math.sqrt(prior.df * prior.variance / source.gammavariate(prior.df / 2, 2.0))
        wrong += estimate([source.gauss(0.0, scale) for _ in range(rounds)], prior).lower_bound(error) > 0
    assert 0.6 * error < wrong / trials < 1.2 * error


@pytest.mark.parametrize("gap", [0.0, 0.03])
def test_the_bound_has_its_alpha_at_a_common_clock(gap):
    """The slope is that of a recording of 40 processes, so it is off by its error. Both sides may have other clocks."""
    source, trials, wrong = random.Random(f"slope {gap}"), 4_000, 0

    def processes(count, offset=0.0):
        clocks = [source.gauss(offset, 0.005) for _ in range(count)]
        logs = [0.25 * clock + source.gauss(0.0, 1e-3) for clock in clocks]
        return tuple(map(math.exp, logs)), tuple(math.exp(log - clock) for log, clock in zip(logs, clocks, strict=True))

    for _ in range(trials):
        recorded = at_common_clock(processes(40))
        slope, error = recorded.slope, recorded.error
        prior = Prior(variance=2e-6, df=24.0, slope=slope, slope_error=error)
        base, head = processes(12), processes(12, gap)
        cycles, time = (Rounds(base=base[scale], head=head[scale]) for scale in (0, 1))
        found = decide(cycles, time, margin=MARGIN, rows=ROWS, noise=(prior, None))
        wrong += slope > 0.0 and found.primary.lower_bound(0.05) > 0
    assert wrong / trials < 1.3 * 0.05
