"""Honest work is green on a made-up GPU, however slow the host is. The corpus has the cheats."""

from __future__ import annotations

import itertools
import random

import pytest
from made_up_gpu import MadeUpGpu, find

from flashcore_ci.worker import unjoined
from flashcore_ci.worker.unjoined import Series, Try


def single(gpu):
    gpu.kernel(0.1)


def fifty_kernels(gpu):
    """The host takes 0.2 ms, and the device 0.1."""
    for _ in range(50):
        gpu.kernel(0.001)


def forked_and_joined(gpu):
    for number in range(4):
        gpu.wait(f"side {number}", "main")
        gpu.kernel(0.02, f"side {number}")
    for number in range(4):
        gpu.wait("main", f"side {number}")


def nested_and_joined(gpu):
    gpu.wait("side 0", "main")
    gpu.wait("side 1", "side 0")
    gpu.kernel(0.05, "side 1")
    gpu.wait("side 0", "side 1")
    gpu.wait("main", "side 0")


def waits_for_the_device(gpu):
    gpu.kernel(0.05)
    gpu.synchronize()
    gpu.kernel(0.05)


def nothing(gpu):
    """No work is not work on another stream. Another audit sees it."""


HONEST = [single, fifty_kernels, forked_and_joined, nested_and_joined, waits_for_the_device, nothing]


@pytest.mark.parametrize("work", HONEST)
def test_honest_work_is_green(work):
    assert find(work) == ""


@pytest.mark.parametrize("work", HONEST)
def test_a_busy_host_changes_nothing(work):
    """Each submission may be interrupted for a while, as by other processes or the garbage collector."""
    numbers = random.Random(1)
    assert find(work, interrupt=lambda: 0.5 if numbers.random() < 0.02 else 0.0) == ""


def test_a_slow_host_changes_nothing():
    """Launches as in Python: 50 kernels of 2 µs, 0.1 ms of the host each. Host time was once taken for the device's."""
    assert find(lambda gpu: [gpu.kernel(0.002) for _ in range(50)], interrupt=lambda: 0.1) == ""


def test_slow_first_launches_change_nothing():
    calls = itertools.count()
    assert find(lambda gpu: gpu.kernel(0.1), interrupt=lambda: 30.0 if next(calls) < 3 else 0.0) == ""


def test_the_device_counts_and_not_the_host():
    gpu = MadeUpGpu()
    gpu.fill(1_000_000)
    gpu.mark("begin")
    assert not gpu.has_passed("begin")
    gpu.synchronize()
    assert gpu.has_passed("begin")


def test_what_is_found_is_said_with_its_time():
    def lingering(gpu):
        gpu.kernel(0.1)
        gpu.wait("side", "main")
        gpu.kernel(0.5, "side")

    def early(gpu):
        gpu.kernel(0.2, "side")
        gpu.wait("main", "side")

    assert "the device is still at work for 499 µs when the stream of its launches is done" in find(lingering)
    assert "ms when no work can run before it, and 0.000 ms as it was timed: work on another stream" in find(early)


def tries(count=5, *, launch=0.1, queue=0.05, rest=0.07, ahead=True):
    return [Try(launch=launch, queue=queue, rest=rest, ahead=ahead)] * count


CALM = tries()


@pytest.mark.parametrize(
    ("seen", "is_red"),
    [
        (tries(), False),
        (tries(queue=0.057), False),
        (tries(queue=0.06), True),
        (tries(2, queue=0.06) + tries(3), False),
        (tries(4, rest=5.0) + tries(1), False),
        (tries(rest=0.28), True),
        (tries(rest=0.28, ahead=False), True),
        (tries(launch=0.124), False),
        (tries(launch=0.126), True),
        (tries(launch=0.3, ahead=False), False),
        (tries(launch=0.33, ahead=False), True),
        (tries(queue=float("nan")), True),
        (tries(rest=float("nan")), True),
        (tries(launch=float("nan")), True),
    ],
)
def test_limits(seen, is_red):
    assert bool(unjoined.describe([Series(tries=seen, without=CALM)], 0.1)) is is_red


def test_several_launches_at_once_are_judged_too():
    series = [Series(tries=tries(), without=CALM), Series(tries=tries(rest=1.0), without=CALM)]
    assert "still at work" in unjoined.describe(series, 0.1)


def test_ranks_launch_equally_often():
    """A rank goes on while another one needs more, and launches at once as often as the slowest can."""

    def observe(others):
        launched = []
        gpu = MadeUpGpu()
        series = unjoined.observe(gpu, lambda hold: (hold(), launched.append(1)), lambda: launched.append(1), others)
        return len(series), len(launched)

    assert observe(lambda values: [1.0] if isinstance(values[0], bool) else [1e3]) == (1, unjoined.MOST)
    assert observe(lambda values: values if isinstance(values[0], bool) else [1e3]) == (1, unjoined.AHEAD)
    assert observe(lambda values: values if isinstance(values[0], bool) else [unjoined.PILE_MS / 2]) == (2, 3 * unjoined.AHEAD)
