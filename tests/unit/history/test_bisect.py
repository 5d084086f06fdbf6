import random
import statistics
import sys
from pathlib import Path

import pytest

from flashcore_ci.history.bisect import LOOKS, State, is_real, place, search
from flashcore_ci.judge.stats.paired_estimate import Prior
from flashcore_ci.model.codes import Code

sys.path.append(str(Path(__file__).parents[3] / "tools/study"))
from bisect_rates import simulate


def values(seed, level, count=5, noise=0.001):
    source = random.Random(seed)
    return tuple(level * source.gauss(1.0, noise) for _ in range(count))


def placed(middle, *, bad=1.01, count=5, **noise):
    return place(values("g", 1.0, count, **noise), values("m", middle, count, **noise), values("b", bad, count, **noise))


@pytest.mark.parametrize(
    ("middle", "bad", "code"),
    [
        (1.01, 1.01, Code.SLOWER),
        (1.0, 1.01, Code.SAME),
        (0.98, 1.01, Code.SAME),
        (1.03, 1.01, Code.SLOWER),
        (0.99, 0.99, Code.SLOWER),  # an improvement: the bad end is the faster one
        (1.0, 0.99, Code.SAME),
        (1.005, 1.01, Code.UNDECIDED),
    ],
)
def test_a_commit_is_on_the_side_that_it_is_nearer_to(middle, bad, code):
    assert placed(middle, bad=bad, count=8).code is code


def test_before_the_first_look_nothing_is_decided():
    assert placed(1.01, count=LOOKS[0] - 1) is None


def test_ends_that_do_not_differ_are_not_real():
    assert not is_real(placed(1.0, bad=1.0, count=8).step)
    assert is_real(placed(1.0, count=8).step)


def test_recorded_noise_decides_earlier():
    sides = [values(name, level, noise=0.001) for name, level in (("g", 1.0), ("m", 1.003), ("b", 1.003))]
    quiet = place(*sides, Prior(variance=2e-6, df=24.0))
    assert quiet.middle.df > place(*sides).middle.df


def test_the_error_of_the_slope_counts_where_the_clocks_differ():
    """More rounds do not make it smaller, so it could name a wrong commit."""
    sides = [values(name, level, noise=0.001) for name, level in (("g", 1.0), ("m", 1.002), ("b", 1.005))]
    prior = Prior(variance=2e-6, df=24.0, slope=0.25, slope_error=0.04)
    near, far = (place(*sides, prior, clocks) for clocks in ((0.0, 0.0, 0.0), (0.0, -0.05, 0.01)))
    assert (near.middle.clock_error, near.step.clock_error) == (0.0, 0.0)
    assert far.middle.clock_error == pytest.approx(0.04 * 0.055)
    assert far.step.clock_error == pytest.approx(0.04 * 0.01)
    assert far.code is Code.UNDECIDED


def history(codes):
    return [State(commit=f"{number:040x}", code=code) for number, code in enumerate(codes)]


def searched(codes, first_bad, undecided=()):
    asked = []

    def measure(state):
        asked.append(state.code)
        slow = 1.01 if int(state.commit, 16) >= first_bad else 1.0
        return placed(1.005 if state.code in undecided else slow, count=8)

    return search(history(codes), measure), asked


def test_only_commits_whose_code_differs_are_measured():
    codes = ["a"] * 50 + ["b"] * 50 + ["c"] * 50 + ["d"] * 50
    found, asked = searched(codes, 100)
    assert (int(found.last_good.commit, 16), int(found.first_bad.commit, 16)) == (99, 100)
    assert (sorted(asked), found.between, found.distinct) == (["b", "c"], (), 4)


def test_one_change_needs_no_measurement():
    found, asked = searched(["a", "a", "b"], 2)
    assert (int(found.first_bad.commit, 16), asked) == (2, [])


def test_code_that_comes_back_is_not_measured_twice():
    found, asked = searched(["a", "b", "a", "c"], 3)
    assert (int(found.first_bad.commit, 16), len(asked)) == (3, 1 if "b" in asked else 0)


def test_what_cannot_be_built_or_decided_stays_a_suspect():
    found, asked = searched(["a", "b", "", "c", "d"], 3, undecided={"c"})
    assert set(asked) == {"b", "c"}
    assert [state.code for state in found.between] == ["", "c"]
    assert (found.last_good.code, found.first_bad.code) == ("b", "d")


def test_equal_ends_end_the_search():
    found = search(history("abcdef"), lambda _: placed(1.0, bad=1.0, count=8))
    assert (found.is_real, len(found.steps)) == (False, 1)


def test_a_bump_of_a_tool_is_a_state_of_its_own():
    states = [State(commit="a", code="old", tools="torch: 2.10 for commit, 2.11 for head"), State(commit="a", code="new")]
    found = search(states, lambda _: None)
    assert "torch: 2.10" in found.last_good.name
    assert found.first_bad is states[1]


def test_simulated_histories_name_the_right_commit_after_three_comparisons():
    recorded = values("recorded", 1.0, count=40, noise=0.001)
    found = [simulate(recorded, 0.5, None, f"test {number}") for number in range(60)]
    assert all(is_right for _, is_right, _, _ in found)
    assert statistics.median(count for count, *_ in found) <= 3
