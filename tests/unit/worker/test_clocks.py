import pytest

from flashcore_ci.worker.clocks import HOPELESS_PAIRS, SHARED_MS, Burst, Pair, disagreement, is_hopeless, unexplained

IDLE = 1.5


def make_pair(launch=0.2, inside=0.2, shared=0.02, count=16, delivery=7.0):
    short, long = (
        Burst(launches=number, outside=IDLE + shared + launch * number, inside=0.01 + inside * number, delivery=delivery)
        for number in (count, 2 * count)
    )
    return Pair(short=short, long=long)


def judge(pairs, alone=0.2):
    return disagreement(pairs, [IDLE + alone + 0.01], Burst(launches=0, outside=IDLE, inside=0.01, delivery=7.0))


def test_the_slope_leaves_out_what_both_bursts_share():
    pair = make_pair()
    assert pair.outside == pytest.approx(0.2)
    assert pair.inside == pytest.approx(0.2)
    assert pair.shared == pytest.approx(IDLE + 0.02)


def test_clocks_that_agree():
    assert judge([make_pair()] * 3) == ""


@pytest.mark.parametrize(("launch", "inside"), [(0.2, 0.2039), (0.2, 0.1961), (0.01, 0.0119), (0.01, 0.0081)])
def test_two_per_cent_or_two_microseconds_are_agreement(launch, inside):
    assert judge([make_pair(launch=launch, inside=inside)], alone=launch) == ""


@pytest.mark.parametrize(("launch", "inside"), [(0.2, 0.2041), (0.2, 0.1959), (0.01, 0.0121), (0.01, 0.0079)])
def test_more_is_disagreement(launch, inside):
    assert "by the candidate's clock" in judge([make_pair(launch=launch, inside=inside)], alone=launch)


def test_one_lost_burst_does_not_decide():
    assert judge([make_pair(), make_pair(launch=0.3), make_pair()]) == ""


def test_time_that_no_launch_explains_is_named():
    assert judge([make_pair(shared=0.5)]) == "0.50 ms of a burst do not grow with its launches (at most 0.40 ms)"


def test_a_slope_below_zero_is_named():
    assert "per launch by the supervisor's clock" in judge([make_pair(launch=-0.1, inside=-0.1)])


def test_a_launch_that_is_slow_alone_is_named():
    assert "one launch works for others" in judge([make_pair()], alone=0.9)


def test_inputs_that_arrive_slowly_are_named():
    assert "inputs take 0.50 ms longer to arrive" in judge([make_pair(delivery=7.5)])


@pytest.mark.parametrize(("shared", "more"), [(-0.5, 0.0), (SHARED_MS, 0.0), (0.3, 0.2 / 32)])
def test_what_the_slope_leaves_out_counts_beyond_noise(shared, more):
    assert unexplained(
        [make_pair(shared=shared)] * 3, Burst(launches=0, outside=IDLE, inside=0.0, delivery=7.0)
    ) == pytest.approx(more)


@pytest.mark.parametrize("hidden", [0.05, 0.15, 0.2, 1.0])
def test_waiting_in_short_bursts_never_makes_a_candidate_faster(hidden):
    count, launch = 16, 0.2
    short, long = (
        Burst(
            launches=n,
            outside=IDLE + launch * n + hidden * (n == count),
            inside=0.01 + (launch - hidden / count) * n,
            delivery=7.0,
        )
        for n in (count, 2 * count)
    )
    pair, idle = Pair(short=short, long=long), Burst(launches=0, outside=IDLE, inside=0.01, delivery=7.0)
    assert disagreement([pair], [IDLE + launch], idle) or pair.outside + unexplained([pair], idle) >= launch - SHARED_MS / (
        2 * count
    )


@pytest.mark.parametrize(("launch", "inside", "count", "hopeless"), [
    (0.2, 0.02, HOPELESS_PAIRS, True),
    (0.2, 0.02, HOPELESS_PAIRS - 1, False),
    (0.2, 0.19, HOPELESS_PAIRS, False),
    (0.2, 0.2, HOPELESS_PAIRS, False),
    (0.2, float("nan"), HOPELESS_PAIRS, False),
])  # fmt: skip
def test_clocks_far_apart_are_given_up(launch, inside, count, hopeless):
    pairs = [make_pair(launch=launch, inside=inside)] * count
    assert is_hopeless(pairs) is hopeless
    assert not hopeless or judge(pairs)
