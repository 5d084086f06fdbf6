"""The sequential test on rounds with a known slowdown."""

import math
import random

import pytest
from comparing import lognormal, make_noise

from flashcore_ci.judge.stats.paired_estimate import Prior, priors
from flashcore_ci.judge.stats.sequential_test import (
    INTERIM_LOOKS,
    TIME_SHARE,
    ErrorBudget,
    Rounds,
    bimodality,
    decide,
    minimum_detectable_slowdown,
    percent,
    primary_share,
    resolvable_margin,
)
from flashcore_ci.model.codes import Code

MARGIN = math.log1p(0.003)
BUDGET = ErrorBudget.of(rows=16, share=0.9)
QUIET = Prior(variance=2e-6, df=20)  # a process scatters by 0.1 %


def made(percent_=0.0, count=8, noise=0.1, seed=1):
    return Rounds(base=lognormal(seed, count, noise=noise), head=lognormal(seed + 99, count, 1.0, percent_, noise))


def code(primary, time=None, noise=(QUIET, QUIET), margin=MARGIN):
    return decide(primary, time, margin=margin, rows=16, noise=noise).code


def test_alpha_is_split_over_rows_scales_and_looks():
    cycles = [ErrorBudget.of(rows=16, share=primary_share(with_time=True), rounds=rounds) for rounds in INTERIM_LOOKS]
    time = [ErrorBudget.of(rows=16, share=TIME_SHARE, rounds=rounds) for rounds in INTERIM_LOOKS]
    assert sum(budget.alpha_null for budget in cycles + time) * 16 == pytest.approx(0.001)
    assert sum(budget.alpha_margin for budget in cycles + time) * 16 == pytest.approx(0.01)
    assert sum(budget.beta for budget in cycles) == pytest.approx(0.05)
    assert primary_share(with_time=False) == 1.0


def test_each_scale_has_its_own_budget():
    found = decide(made(count=12), made(count=12, seed=7), margin=MARGIN, rows=16, noise=(QUIET, QUIET))
    assert (found.budget, found.time_budget) == (BUDGET, ErrorBudget.of(rows=16, share=TIME_SHARE))
    assert found.budget.alpha_margin == pytest.approx(9 * found.time_budget.alpha_margin)


def test_lost_rounds_never_increase_the_budget():
    found = [ErrorBudget.of(rows=3, share=1.0, rounds=rounds) for rounds in range(1, 15)]
    for field in ("alpha_null", "alpha_margin", "beta"):
        shares = [getattr(budget, field) for budget in found]
        assert shares == sorted(shares)


def test_slower_must_be_above_zero_and_above_the_margin():
    hair = math.log1p(1e-9)
    assert code(made(0.12, count=12), margin=hair, noise=(QUIET, None)) is not Code.SLOWER
    assert code(made(0.5, count=12), margin=hair, noise=(QUIET, None)) is Code.SLOWER


class TestFourOutcomes:
    def test_the_same_speed(self):
        assert code(made(0.0)) is Code.SAME

    def test_clearly_slower(self):
        assert code(made(2.0)) is Code.SLOWER

    def test_clearly_faster(self):
        assert code(made(-2.0)) is Code.FASTER

    def test_at_the_margin_the_test_is_undecided(self):
        assert code(made(0.3, count=12)) is Code.UNDECIDED

    def test_slower_by_less_than_the_margin_is_the_same(self):
        assert code(made(0.1, noise=0.02), noise=(None, None)) is Code.SAME

    def test_without_a_prior(self):
        assert code(made(2.0), noise=(None, None)) is Code.SLOWER
        assert code(made(0.0, noise=0.05), noise=(None, None)) is Code.SAME


class TestLooks:
    def test_the_first_look_never_gives_slower(self):
        assert code(made(20.0, count=5)) is Code.UNDECIDED
        assert code(made(20.0, count=7)) is Code.UNDECIDED
        assert code(made(20.0, count=8)) is Code.SLOWER

    def test_the_first_look_can_give_same(self):
        assert code(made(0.0, count=5)) is Code.SAME

    def test_before_the_first_look_the_test_is_undecided(self):
        assert code(made(0.0, count=4, noise=0.001)) is Code.UNDECIDED


class TestTime:
    def at_clock(self, rounds, factor):
        return Rounds(base=rounds.base, head=tuple(value * factor for value in rounds.head))

    def test_equal_cycles_at_a_lower_clock(self):
        cycles = made(0.0)
        assert code(cycles, self.at_clock(cycles, 1.05)) is Code.SLOWER_AT_LOWER_CLOCK
        assert code(cycles, self.at_clock(cycles, 1.01)) is Code.SAME

    def test_an_uncertain_time_needs_another_look(self):
        cycles = made(0.0, count=5)
        assert code(cycles, self.at_clock(cycles, 1.05)) is Code.UNDECIDED

    def test_a_noisy_time_does_not_hide_the_cycles(self):
        cycles, time = made(0.0, count=12), made(0.0, count=12, noise=5.0, seed=7)
        assert code(cycles, time, noise=(QUIET, None)) is Code.SAME
        assert code(made(0.0, count=8), made(0.0, count=8, noise=5.0, seed=7), noise=(QUIET, None)) is Code.UNDECIDED

    def test_cycles_take_precedence_over_time(self):
        cycles = made(2.0)
        assert code(cycles, self.at_clock(cycles, 1.05)) is Code.SLOWER


class TestBimodality:
    def coin(self, seed, percent_=0.0, count=12, gap=1.5):
        source = random.Random(seed)
        sides = [
            [v * (1 + gap / 100 * source.randint(0, 1)) for v in side] for side in (made(0.0, count).base, made(0, count).head)
        ]
        return Rounds(base=tuple(sides[0]), head=tuple(value * (1 + percent_ / 100) for value in sides[1]))

    def test_the_groups_are_described(self):
        rounds = self.coin(4)
        found = decide(rounds, None, margin=MARGIN, rows=16, noise=(QUIET, QUIET))
        assert found.code is Code.BIMODAL
        assert len(found.modes) == 2
        slow = sum(value > 1.007 for value in rounds.base)
        assert found.modes[0].startswith(f"base: {12 - slow} fast and {slow} slow processes, 1.")

    def test_a_head_that_is_always_slower_than_the_base_is_slower(self):
        assert code(self.coin(4, percent_=10.0)) is Code.SLOWER

    def test_a_slowdown_is_not_bimodal(self):
        assert bimodality(made(5.0), MARGIN) == ()

    def test_random_speeds_never_give_slower(self):
        codes = {code(self.coin(seed, count=count)) for seed in range(300) for count in (8, 12)}
        assert Code.SLOWER not in codes


class TestResolution:
    def test_a_margin_below_the_resolvable_one(self):
        noisy = priors(make_noise(2.0), "ms")["big"]
        found = decide(made(0.0, count=12, noise=2.0), None, margin=MARGIN, rows=16, noise=(noisy, None))
        assert found.code is Code.BELOW_RESOLUTION
        assert 0.01 < found.resolvable_margin < 0.06

    def test_a_large_slowdown_is_slower_on_a_noisy_machine(self):
        noisy = priors(make_noise(2.0), "ms")["big"]
        assert code(made(30.0, count=12, noise=2.0), noise=(noisy, None)) is Code.SLOWER

    def test_the_resolvable_margin_is_resolved(self):
        prior = priors(make_noise(1.0), "ms")["big"]
        margin = resolvable_margin(prior, BUDGET)
        trials = [made(0.0, count=12, noise=1.0, seed=seed) for seed in range(1, 400)]
        codes = [code(rounds, noise=(prior, prior), margin=margin) for rounds in trials]
        assert codes.count(Code.SAME) >= 0.95 * len(codes)
        assert Code.SLOWER not in codes

    def test_the_minimum_detectable_slowdown_is_detected(self):
        prior = priors(make_noise(0.2), "ms")["big"]
        least = percent(minimum_detectable_slowdown(prior, MARGIN, BUDGET))
        trials = [made(least, count=12, noise=0.2, seed=seed) for seed in range(1, 400)]
        assert sum(code(rounds, noise=(prior, prior)) is Code.SLOWER for rounds in trials) >= 0.9 * len(trials)


class TestCommonClock:
    """A power cap lets processes run at different clocks, and part of a kernel's time is that of memory."""

    SLOPE = 0.25

    def rounds(self, count=12, slower=0.0, gap=0.0, seed=1):
        """Cycles and time. ``gap``: how much higher the head's clock is, as a log."""
        source, made = random.Random(seed), ([], [])
        for side in (0, 1):
            for _ in range(count):
                clock = source.gauss(gap * side, 0.01)
                cycles = source.gauss(math.log1p(slower) * side, 3e-4) + self.SLOPE * clock
                made[side].append((math.exp(cycles), math.exp(cycles - clock)))
        scales = [[tuple(pair[scale] for pair in side) for side in made] for scale in (0, 1)]
        return [Rounds(base=base, head=head) for base, head in scales]

    def prior(self, slope=SLOPE, error=0.02):
        return Prior(variance=2 * 9e-8, df=20, slope=slope, slope_error=error)

    def test_clocks_that_differ_are_no_scatter(self):
        cycles, time = self.rounds(slower=0.0045)
        assert code(cycles, time, noise=(self.prior(), None)) is Code.SLOWER
        assert code(cycles, time, noise=(self.prior(slope=0.0), None)) is Code.UNDECIDED

    def test_unchanged_code_is_the_same_at_another_clock(self):
        cycles, time = self.rounds(gap=-0.02)
        found = decide(cycles, time, margin=MARGIN, rows=16, noise=(self.prior(), None))
        assert (found.code, found.slope) == (Code.SAME, self.SLOPE)
        assert abs(percent(found.primary.mean)) < 0.1

    def test_the_error_of_the_slope_counts_where_the_clocks_of_the_sides_differ(self):
        near, far = (
            decide(*self.rounds(gap=gap), margin=MARGIN, rows=16, noise=(self.prior(), None)).primary.standard_error
            for gap in (0.0, 0.05)
        )
        assert far == pytest.approx(math.hypot(near, 0.02 * 0.05), rel=0.15)

    def test_equal_cycles_are_no_measurements(self):
        _, time = self.rounds()
        stuck = Rounds(base=(1000.0,) * 12, head=(1000.0,) * 12)
        with pytest.raises(ValueError, match="all values are equal"):
            decide(stuck, time, margin=MARGIN, rows=16, noise=(self.prior(), None))

    def test_the_error_of_the_slope_is_no_scatter(self):
        near, far = (
            decide(*self.rounds(gap=gap), margin=MARGIN, rows=16, noise=(self.prior(), None)).primary for gap in (0.0, 0.05)
        )
        assert far.scatter == pytest.approx(near.scatter, rel=0.2)
        assert far.clock_error == pytest.approx(0.02 * 0.05, rel=0.15)

    def test_time_that_is_the_primary_scale_has_no_slope(self):
        _, time = self.rounds()
        assert decide(time, None, margin=MARGIN, rows=16, noise=(self.prior(), None)).slope == 0.0


class TestImpossibleValues:
    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, -1.0, 1e308])
    @pytest.mark.parametrize("side", ["base", "head"])
    def test_values_must_be_finite_and_above_zero(self, bad, side):
        values = {"base": (1.0, 1.01, 1.02), "head": (1.0, 1.01, 1.02)}
        with pytest.raises(ValueError, match="above 1e-99"):
            Rounds(**{**values, side: (1.0, bad, 1.02)})

    def test_rounds_with_one_side(self):
        with pytest.raises(ValueError, match="a base and a head"):
            Rounds(base=(1.0, 1.0), head=(1.0,))
