"""Find work on other streams that the stream of a launch does not wait for.

A kernel fills the GPU while the host submits launches, and after them a queue of short kernels that fill the GPU too. Then the device
goes on without the host. Work that is left after the launches delays the queue. Work that could begin before the launch when it was
timed, as on a stream of its own, makes the launch longer here, in time and in cycles. The device's clock tells both, so a slow host
changes neither.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flashcore_ci.worker.driver import Driver

AHEAD, MOST = 3, 12
"""Tries in which the host must be ahead, and all tries."""
QUEUE, QUEUE_NANOSECONDS = 16, 4_000
FIRST_HOLD_MS, SPARE_MS, MAX_HOLD_MS = 0.5, 0.3, 50.0
HOLD_TIMES_HOST = 1.5
PILE_MS, MAX_PILE = 1.5, 32
"""Launches at once, so that little work on another stream becomes much. The driver queues about 1,000 kernels."""
WAITING_MS, MAX_WAITING_PILE = 20.0, 16
"""Launches at once that wait for the device: work that they leave on another stream adds up, unless the host is as slow as it."""
DELAY_MS = 0.003
"""Honest launches delayed the queue by at most 1.3 µs, eight kernels of 2 µs aside by 4.7 to 9 µs (H200, seven at once)."""
LONGER, LONGER_MS = 1.15, 0.01
REST_MS, HOST_MS = 0.1, 0.2
"""What the host may add to the end, and to a launch that waits for the device. The shortest try counts: not all are interrupted."""


class NotSeenError(Exception):
    """The host was too slow to look for work on other streams."""


Action = Callable[[], object]
Worst = Callable[[list[float]], list[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """Milliseconds of the device: the launches, the queue after them, and then until the whole device was done.

    ``mhz``: the SM clock of the launches. ``ahead``: the host had submitted all of it when the device began. There is no queue if it
    was not ahead of the launches, because what it submits next would take its own time.
    """

    launch: float
    queue: float
    rest: float
    mhz: float
    ahead: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Tries of equally many launches, and at least as many without one."""

    tries: Sequence[Try]
    without: Sequence[Try]

    @property
    def rest(self) -> float:
        """Milliseconds until the device was done, more than without a launch."""
        return min(one.rest for one in self.tries) - min(one.rest for one in self.without)

    def is_enough(self, *, waits: bool = False) -> bool:
        """Tell whether the host was ahead often enough, unless it ``waits``, and not interrupted each time."""
        ahead = sum(one.ahead or waits for one in self.tries) >= AHEAD
        return ahead and (waits or any(one.ahead for one in self.without)) and self.rest <= REST_MS


def observe(driver: Driver, launch: Callable[[Action], object], again: Action, worst: Worst = list) -> list[Series]:
    """Launch alone, and then several times at once.

    ``launch`` calls its argument right before the work, and ``again`` repeats the work. ``worst`` is that of all ranks, which
    must launch equally often.
    """
    alone, host = _observe(driver, launch, FIRST_HOLD_MS, worst)
    longest, waits = worst([max(host, *(one.launch for one in alone.tries)), not any(one.ahead for one in alone.tries)])
    length, most = (WAITING_MS, MAX_WAITING_PILE) if waits else (PILE_MS, MAX_PILE)
    more = max(1, min(most, int(length / longest))) - 1

    def pile(hold: Action) -> None:
        launch(hold)
        for _ in range(more):
            again()

    return [alone, _observe(driver, pile, PILE_MS + SPARE_MS, worst, alone.without, waits=bool(waits))[0]] if more else [alone]


def _observe(
    driver: Driver,
    launch: Callable[[Action], object],
    hold: float,
    worst: Worst,
    known: Sequence[Try] = (),
    *,
    waits: bool = False,
) -> tuple[Series, float]:
    """Launch until all ranks have seen enough. Return the shortest time of the host, too.

    ``known``: tries without a launch. ``waits``: the host is never ahead.
    """
    tries: list[Try] = []
    without = list(known)
    hosts = []
    seen = Series(tries=tries, without=without)
    while not tries or (len(tries) < MOST and worst([not seen.is_enough(waits=waits)])[0]):
        if len(without) <= len(tries):
            without.append(_try(driver, lambda begin: begin(), hold)[0])
        done, host = _try(driver, launch, hold)
        tries.append(done)
        hosts.append(host)
        hold = min(MAX_HOLD_MS, max(hold, HOLD_TIMES_HOST * host + SPARE_MS))
    return seen, min(hosts)


def _try(driver: Driver, launch: Callable[[Action], object], hold: float) -> tuple[Try, float]:
    before, after = driver.readings(), driver.readings()

    def begin() -> None:
        driver.synchronize()
        driver.mark("turn")
        driver.fill(round(hold * 1e6), before)
        driver.mark("begin")
        while not driver.has_passed("turn"):
            pass  # what the host submits from here on comes too late to run before

    began = time.perf_counter()
    launch(begin)
    driver.mark("end")
    last = "end" if driver.has_passed("begin") else "queue"
    if last == "queue":
        driver.fill_often(QUEUE, QUEUE_NANOSECONDS, after)
        driver.mark("queue")
    late, host = driver.has_passed("begin"), 1e3 * (time.perf_counter() - began)
    while not driver.has_passed(last):
        pass  # a host that sleeps wakes up late, and later after a long launch
    driver.synchronize()
    driver.mark("done")
    driver.synchronize()
    launched, queue, rest = (driver.milliseconds(*pair) for pair in (("begin", "end"), ("end", last), (last, "done")))
    return Try(launch=launched, queue=queue, rest=rest, mhz=driver.megahertz(before, after), ahead=not late), host


def describe(observed: Sequence[Series], timed: float = math.inf, mhz: float = math.nan) -> str:
    """Return what was found, or "". ``timed`` is the launch in ms as it was measured, at the SM clock ``mhz``.

    NotSeenError if there is nothing to compare the queue with.
    """
    for series in observed:
        ahead = [one for one in series.tries if one.ahead]
        calm = [one for one in series.without if one.ahead]
        delays = [series.rest]
        if ahead and not calm and delays[0] <= REST_MS:
            raise NotSeenError(f"the host was never ahead of an empty queue, in {len(series.without)} tries: is it busy?")
        if ahead and calm:
            delays.append(statistics.median(one.queue for one in ahead) - statistics.median(one.queue for one in calm))
        for delay, most in zip(delays, (REST_MS, DELAY_MS), strict=False):
            if not delay <= most:
                late = f"the device is still at work for {1e3 * delay:.0f} µs when the stream of its launches is done"
                return f"{late}: work on another stream is not timed"
    return _early(observed[0].tries, timed, mhz)


def _early(tries: Sequence[Try], timed: float, mhz: float) -> str:
    """Compare with a launch before which nothing can run. Only time or only cycles can be more, because the clock changes."""
    ahead = [one for one in tries if one.ahead]
    most = LONGER * timed + LONGER_MS
    if not ahead:  # the launch waits for the device, and the host's time counts here as it did when it was timed
        whole, clock = min(one.launch for one in tries) - HOST_MS, mhz
    else:
        whole, clock = statistics.median(one.launch for one in ahead), statistics.median(one.mhz for one in ahead)
    if whole <= most or whole * clock <= most * mhz:
        return ""
    times = (
        f"{whole:.3f} ms at {clock:.0f} MHz when no work can run before it, and {timed:.3f} ms at {mhz:.0f} MHz as it was timed"
    )
    return f"a launch takes {times}: work on another stream is not timed"
