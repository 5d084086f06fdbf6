"""The rule has the power that the recording implies."""

import math
import random

import pytest
from comparing import make_noise

from flashcore_ci.judge.power import analyse_power
from flashcore_ci.judge.stats.paired_estimate import priors
from flashcore_ci.judge.stats.sequential_test import Rounds, decide
from flashcore_ci.model.codes import Code


def power_of(noise=0.1, margin=0.3, rows=16):
    margins = {"big": margin, **{f"other-{number}": 0.3 for number in range(rows - 1)}}
    (found,) = analyse_power(make_noise(noise), margins)
    return found


def test_a_quiet_machine_detects_small_slowdowns():
    found = power_of(0.03)
    assert found.scatter == pytest.approx(0.03, rel=0.3)
    assert found.resolvable_margin < 0.1
    assert 0.3 < found.minimum_detectable_slowdown < 0.45
    assert found.false_alarm_rate < 1e-9
    rates = [rate for _, rate in found.power]
    assert rates == sorted(rates)
    assert rates[-1] > 0.999


def test_the_false_alarm_rate_is_at_most_alpha():
    for noise in (0.03, 0.3, 3.0):
        for margin in (0.01, 0.3, 3.0):
            assert power_of(noise, margin).false_alarm_rate <= 0.001 / 16


def test_a_workload_without_a_margin_is_omitted():
    assert list(analyse_power(make_noise(), {"other": 0.3})) == []


def test_the_text_is_one_line():
    assert str(power_of()).startswith("big: scatter of a process 0.")
    assert "100 % of +5 %" in str(power_of())


@pytest.mark.parametrize("level", [0.5, 1.0])
def test_the_rule_has_the_computed_power(level):
    noise = make_noise(0.2)
    promised = dict(power_of(0.2).power)[level]
    prior, source, trials = priors(noise, "megacycles")["big"], random.Random(level), 1500
    scale = math.sqrt(prior.variance / 2.0)
    hits = 0
    for _ in range(trials):
        base, head = ([math.exp(source.gauss(shift, scale)) for _ in range(12)] for shift in (0.0, math.log1p(level / 100.0)))
        rounds = Rounds(base=tuple(base), head=tuple(head))
        hits += decide(rounds, rounds, margin=math.log1p(0.003), rows=16, noise=(prior, None)).code is Code.SLOWER
    assert hits / trials == pytest.approx(promised, abs=0.06)
