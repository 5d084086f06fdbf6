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

    assert "the device is still at work for 500 µs when the stream of its launches is done" in find(lingering)
    assert (
        "ms at 1980 MHz when no work can run before it, and 0.000 ms at 1980 MHz as it was timed: work on another stream"
        in find(early)
    )


def tries(count=5, *, launch=0.1, queue=0.05, rest=0.07, mhz=1980.0, ahead=True):
    return [Try(launch=launch, queue=queue, rest=rest, mhz=mhz, ahead=ahead)] * count


CALM = tries()


@pytest.mark.parametrize(
    ("seen", "is_red"),
    [
        (tries(), False),
        (tries(queue=0.0525), False),
        (tries(queue=0.0535), True),
        (tries(2, queue=0.06) + tries(3), False),
        (tries(4, rest=5.0) + tries(1), False),
        (tries(rest=0.16), False),
        (tries(rest=0.18), True),
        (tries(rest=0.18, ahead=False), True),
        (tries(launch=0.124), False),
        (tries(launch=0.126), True),
        (tries(launch=0.126, mhz=1900.0), False),  # as many cycles at a lower clock
        (tries(launch=0.154, mhz=1600.0), False),
        (tries(launch=0.156, mhz=1600.0), True),
        (tries(launch=0.124, mhz=2200.0), False),  # a memory-bound launch takes more cycles at a higher clock
        (tries(launch=0.126, mhz=float("nan")), True),
        (tries(launch=0.3, ahead=False), False),
        (tries(launch=0.33, ahead=False), True),
        (tries(queue=float("nan")), True),
        (tries(rest=float("nan")), True),
        (tries(launch=float("nan")), True),
    ],
)
def test_limits(seen, is_red):
    assert bool(unjoined.describe([Series(tries=seen, without=CALM)], 0.1, 1980.0)) is is_red


def test_without_a_clock_time_alone_counts():
    assert unjoined.describe([Series(tries=tries(launch=0.126), without=CALM)], 0.1)


def test_the_clocks_are_said():
    """Once a power cap lowered the clock by a fifth for so long, and unchanged code was red."""
    prefill = [Series(tries=tries(launch=1.257, mhz=1237.0), without=CALM)]
    assert unjoined.describe(prefill, 1.008, 1542.0) == ""
    assert "1.257 ms at 1237 MHz when no work can run before it, and 0.800 ms at 1542 MHz" in unjoined.describe(
        prefill, 0.8, 1542.0
    )


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

    def slowest(enough, longest, waits=False):
        return lambda values: enough(values) if len(values) == 1 else [longest, waits]

    def same(values):
        return values

    assert observe(slowest(lambda _: [1.0], 1e3)) == (1, unjoined.MOST)
    assert observe(slowest(same, 1e3)) == (1, unjoined.AHEAD)
    assert observe(slowest(same, unjoined.PILE_MS / 2)) == (2, 3 * unjoined.AHEAD)
    pile = unjoined.MAX_WAITING_PILE
    assert observe(slowest(same, 1.0, waits=True)) == (2, (1 + pile) * unjoined.AHEAD)
    assert observe(slowest(same, 1e3, waits=True)) == (1, unjoined.AHEAD)


def test_a_launch_that_waits_for_the_device_has_no_queue():
    """What the host submits after it takes the host's time, which was once taken for work on another stream."""
    assert find(waits_for_the_device, interrupt=lambda: 0.02) == ""


def test_a_queue_that_nothing_is_compared_with_is_no_pass():
    late = tries(queue=float("nan"), ahead=False)
    with pytest.raises(unjoined.NotSeenError, match="never ahead of an empty queue, in 5 tries"):
        unjoined.describe([Series(tries=tries(queue=0.06), without=late)], 0.1, 1980.0)
    assert unjoined.describe([Series(tries=tries(queue=0.06, rest=0.2), without=late)], 0.1, 1980.0)
    assert not Series(tries=tries(), without=late).is_enough()


@pytest.mark.parametrize(("ms", "launches"), [(0.05, 12 + 3 * 16), (5.0, 12 + 3 * 3), (60.0, 12)])
def test_a_launch_that_waits_is_repeated_for_a_short_time_only(ms, launches):
    """A slow launch once took a hundred seconds of a process that has three minutes."""
    made = []

    def work(gpu):
        made.append(1)
        gpu.synchronize()
        gpu.kernel(ms)
        gpu.synchronize()

    assert find(work, ms=1e3) == ""
    assert len(made) <= launches
