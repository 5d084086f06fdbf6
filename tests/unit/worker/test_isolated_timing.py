import pytest

from flashcore_ci.worker.isolated_timing import WINDOW_PAIRS, _is_settled
from flashcore_ci.worker.steady_state import Block


def blocks(cycles, *, at=1.0, throttled=()):
    return [Block(at=at, ms=value, mhz=1000.0, throttled=index in throttled) for index, value in enumerate(cycles)]


@pytest.mark.parametrize(
    "cycles", [(1.0,) * WINDOW_PAIRS, (1.0, 1.03, 0.98, 1.02, 0.99, 1.01), (1.2, *[1.0] * WINDOW_PAIRS)], ids=str
)
def test_noise_around_one_value_is_settled(cycles):
    assert _is_settled(blocks(cycles))


@pytest.mark.parametrize("step", [0.01, 0.03, -0.03])
def test_a_drift_is_not_noise(step):
    assert not _is_settled(blocks([1.0 + step * number for number in range(WINDOW_PAIRS)]))


def test_a_step_is_not_noise():
    assert not _is_settled(blocks([1.0] * 3 + [1.03] * 3))


@pytest.mark.parametrize("seen", [blocks([1.0] * 5), blocks([1.0] * 6, at=0.2), blocks([1.0] * 6, throttled={2})])
def test_too_little_was_seen(seen):
    assert not _is_settled(seen)
