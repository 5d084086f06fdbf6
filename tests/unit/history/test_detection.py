import itertools
import math
import random
import statistics
from dataclasses import dataclass, replace

import pytest

from flashcore_ci.history.detection import ROUNDS, WINDOWS, Detector, Kind, rate_of, scan
from flashcore_ci.history.levels import without
from flashcore_ci.history.scatter import MIN_SITTINGS, Scatter

SCATTER = 0.001


@dataclass(frozen=True)
class Sitting:
    log_ratio: float
    standard_error: float | None
    df: float
    rounds: int
    code: str
    link_error: float = 0.0
    parent: str = ""
    step: float = 0.0
    step_error: float = 0.0
    far: float | None = None
    step_far: float | None = None


class Machine:
    """Draws sittings whose rounds scatter normally."""

    def __init__(self, seed=1, scatter=SCATTER):
        self.random, self.scatter = random.Random(seed), scatter

    def sitting(self, level, code, rounds=5, shocks=()):
        values = [level + self.random.gauss(0.0, self.scatter) for _ in range(rounds)]
        values = [value + shock for value, shock in zip(values, (*shocks, *[0.0] * rounds), strict=False)]
        mean = math.fsum(values) / rounds
        variance = math.fsum((value - mean) ** 2 for value in values) / (rounds - 1)
        far = max(values, key=lambda value: abs(value - mean))
        return Sitting(mean, math.sqrt(variance / rounds), rounds - 1, rounds, code, far=far)

    def with_parent(self, change, code, parent, rounds=5, shock=0.0):
        """Time head with anchor and parent. Only ``code`` is slower, by ``change``, and the first process of the parent by ``shock``."""
        side = self.scatter / math.sqrt(2)
        head, anchor, before = ([self.random.gauss(0.0, side) for _ in range(rounds)] for _ in range(3))
        before[0] += shock
        ratios, steps = ([change + h - b for h, b in zip(head, base, strict=True)] for base in (anchor, before))
        (mean, error), (step, step_error) = (
            (statistics.fmean(v), statistics.stdev(v) / math.sqrt(rounds)) for v in (ratios, steps)
        )
        far, step_far = (max(v, key=lambda x, m=m: abs(x - m)) for v, m in ((ratios, mean), (steps, step)))
        more = {"parent": parent, "step": step, "step_error": step_error, "far": far, "step_far": step_far}
        return Sitting(mean, error, rounds - 1, rounds, code, **more)


def follow(levels, *, seed=1, rate=None, scatter=SCATTER):
    """Changes with their commits, where every request for more rounds is met."""
    machine, detector, found, starts = Machine(seed, scatter), Detector(rate or rate_of(20)), [], []
    for commit, level in enumerate(levels):
        rounds = 5
        while rounds:
            starts.append(commit)
            finding = detector.add(machine.sitting(level, str(commit), rounds))
            rounds = finding.rounds if finding is not None and finding.kind is Kind.MEASURE_AGAIN else 0
        if finding is not None:
            found.append((commit, starts[finding.first], finding))
    return found


class TestChanges:
    def test_a_step_is_found_at_its_commit_and_measured_again_before(self):
        ((commit, first, finding),) = follow([0.0] * 60 + [0.005] * 20)
        assert (commit, first, finding.kind, finding.window) == (60, 60, Kind.SLOWER, 1)
        assert finding.z > finding.limit > 4.5
        assert finding.change == pytest.approx(0.005, abs=0.001)

    def test_nothing_is_found_where_nothing_changed(self):
        assert [found for seed in range(10) for found in follow([0.0] * 100, seed=seed)] == []

    def test_creep_is_found_although_no_step_is_visible(self):
        levels = [0.0] * 60 + [0.001 * step for step in range(1, 11)] + [0.01] * 5
        found = [follow(levels, seed=seed, scatter=0.002)[0] for seed in range(10)]
        assert max(commit for commit, *_ in found) <= 60 + 4 + 5

    def test_slow_creep_is_found_by_a_long_window(self):
        windows = {
            follow([0.0] * 40 + [0.0001 * step for step in range(60)], seed=seed, scatter=0.002)[0][2].window for seed in range(8)
        }
        assert max(windows) > 1

    def test_an_improvement_is_no_alert_and_begins_anew(self):
        kinds = [finding.kind for *_, finding in follow([0.0] * 40 + [-0.01] * 40 + [-0.005] * 10)]
        assert kinds == [Kind.FASTER, Kind.SLOWER]

    def test_the_limit_is_a_quantile_of_the_rate_and_the_shares_are_one(self):
        assert sum(WINDOWS.values()) == pytest.approx(1.0)
        strict, loose = (follow([0.0] * 60 + [0.02], rate=rate)[0][2].limit for rate in (1e-9, 1e-3))
        assert strict > loose + 2
        assert rate_of(20) == pytest.approx(0.04 / 1000 / 20)


class TestLevels:
    def test_equal_code_never_alerts_whatever_it_measures(self):
        machine = Machine()
        sittings = [machine.sitting(0.0, str(commit)) for commit in range(20)]
        same = [machine.sitting(0.05, "19", 8) for _ in range(20)]
        assert scan([*sittings, *same], rate_of(20)) == ()

    def test_a_return_to_earlier_code_is_no_change(self):
        machine = Machine()
        sittings = [machine.sitting(0.0, str(commit)) for commit in range(20)]
        assert scan([*sittings, machine.sitting(0.05, "3", 8), machine.sitting(0.05, "3", 8)], rate_of(20)) == ()

    def test_a_suspicion_without_more_rounds_stays_a_request(self):
        machine = Machine()
        (request,) = scan([*(machine.sitting(0.0, str(commit)) for commit in range(30)), machine.sitting(0.01, "x")], rate_of(20))
        assert (request.kind, request.rounds) == (Kind.MEASURE_AGAIN, ROUNDS - 5)

    def test_a_suspicion_that_does_not_repeat_is_dropped(self):
        machine = Machine()
        sittings = [machine.sitting(0.0, str(commit)) for commit in range(30)]
        assert scan([*sittings, machine.sitting(0.004, "x"), machine.sitting(0.0, "x", 3)], rate_of(20)) == ()

    def test_a_point_that_was_not_timed_adds_nothing(self):
        machine = Machine()
        sittings = [machine.sitting(0.0, str(commit)) for commit in range(30)]
        untimed = Sitting(0.05, None, 0.0, 0, "y")
        assert scan([*sittings, untimed, untimed], rate_of(20)) == ()

    def test_the_error_of_a_replaced_anchor_is_part_of_the_distance(self):
        machine = Machine()
        before = [machine.sitting(0.0, str(commit)) for commit in range(30)]
        after = [replace(machine.sitting(0.01, "x", rounds), link_error=0.004) for rounds in (5, 3)]
        assert scan([*before, *after], rate_of(20)) == ()
        exact = [replace(each, link_error=0.0) for each in after]
        assert [finding.kind for finding in scan([*before, *exact], rate_of(20))] == [Kind.SLOWER]


class TestDisturbed:
    def test_a_disturbed_sitting_does_not_count_and_is_repeated(self):
        machine = Machine()
        sittings = [machine.sitting(0.0, str(commit)) for commit in range(30)]
        detector = Detector(rate_of(20))
        assert [detector.add(each) for each in sittings] == [None] * 30
        request = detector.add(machine.sitting(0.0, "x", 5, shocks=(0.03, -0.03)))
        assert (request.kind, request.rounds) == (Kind.MEASURE_AGAIN, ROUNDS)
        assert detector.add(machine.sitting(0.0, "x", 8)) is None

    @pytest.mark.parametrize("shock", [0.0, 0.03, -0.03])
    def test_of_a_sitting_with_one_disturbed_round_the_others_count(self, shock):
        machine = Machine()
        detector = Detector(rate_of(20))
        for commit in range(30):
            detector.add(machine.sitting(0.0, str(commit)))
        request = detector.add(machine.sitting(0.004, "x", 5, shocks=(shock,)))
        assert (request.kind, request.rounds) == (Kind.MEASURE_AGAIN, 4 if shock else 3)
        found = detector.add(machine.sitting(0.004, "x", request.rounds, shocks=(shock,)))
        assert found.kind is Kind.SLOWER
        assert found.change == pytest.approx(0.004, abs=1e-3)

    def test_without_its_farthest_round_a_sitting_has_the_mean_and_variance_of_the_others(self):
        values = [0.1, 0.3, 0.2, 1.9, 0.15]
        rest = without(1.9, statistics.fmean(values), statistics.variance(values), 5)
        assert rest == pytest.approx((statistics.fmean([0.1, 0.3, 0.2, 0.15]), statistics.variance([0.1, 0.3, 0.2, 0.15])))
        assert without(None, 0.5, 0.1, 5) is None  # a sitting that was stored before
        assert without(1.0, 0.5, 0.1, 2) is None

    def test_disturbed_first_sittings_do_not_move_what_later_ones_are_compared_with(self):
        for seed in range(5):
            machine = Machine(seed)
            early = [machine.sitting(0.0, str(n), 5, shocks=(0.03,) if n in {1, 4} else ()) for n in range(MIN_SITTINGS)]
            late = [machine.sitting(0.0, str(n)) for n in range(MIN_SITTINGS, 60)]
            assert [f for f in scan([*early, *late], rate_of(20)) if f.kind is not Kind.MEASURE_AGAIN] == []

    def test_sittings_that_differ_more_than_their_rounds_widen_the_distance(self):
        machine = Machine()
        scatter = Scatter([(SCATTER**2, 4.0)] * MIN_SITTINGS)
        means = [machine.random.gauss(0.0, 3 * SCATTER) for _ in range(200)]
        for before, now in itertools.pairwise(means):
            scatter.add_step((before, 5), (now, 5))
        assert scatter.factor > 2

    @pytest.mark.parametrize(
        "broken", [{"standard_error": math.nan}, {"log_ratio": math.inf}, {"standard_error": 0.0}, {"rounds": 1}]
    )
    def test_a_sitting_that_is_no_measurement_adds_nothing(self, broken):
        machine = Machine()
        sittings = [machine.sitting(0.0, str(commit)) for commit in range(30)]
        assert scan([*sittings, replace(machine.sitting(0.05, "x"), **broken)], rate_of(20)) == ()


class TestParents:
    """The level before is timed again, so that a step is seen against two sides."""

    def seen(self, change, *, parent, shock=0.0, trials=6):
        """In how many of the histories a step is reported at its commit, and the errors that were stated."""
        found = []
        for seed in range(trials):
            machine, detector = Machine(seed), Detector(rate_of(20))
            for number in range(24):
                detector.add(machine.with_parent(0.0, str(number), str(number - 1)))
            last = [detector.add(machine.with_parent(change, "x", parent, rounds, shock)) for rounds in (5, 3)][-1]
            found += [last] if last is not None and last.kind is Kind.SLOWER else []
        return len(found), [each.standard_error / SCATTER for each in found]

    def test_a_step_is_seen_more_often_with_the_parent(self):
        (with_parent, errors), (without, plain) = (self.seen(0.0017, parent=parent, trials=40) for parent in ("23", ""))
        assert with_parent > without + 5
        assert statistics.fmean(errors) < 0.9 * statistics.fmean(plain)

    def test_code_that_is_not_the_level_before_does_not_count(self):
        assert self.seen(0.002, parent="22") == self.seen(0.002, parent="")

    def test_a_disturbed_parent_does_not_count(self):
        assert self.seen(0.002, parent="23", shock=0.03) == self.seen(0.002, parent="", shock=0.03)

    def test_nothing_is_found_where_nothing_changed(self):
        machine = Machine(3)
        sittings = [machine.with_parent(0.0, str(number), str(number - 1)) for number in range(200)]
        assert [found for found in scan(sittings, rate_of(20)) if found.kind is not Kind.MEASURE_AGAIN] == []
