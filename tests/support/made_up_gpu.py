"""A made-up GPU with streams, marks and a host clock. A kernel needs the whole GPU, and the one that is ready first runs first."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest import mock

from flashcore_ci.worker import unjoined

MHZ = 1980.0
SUBMIT_MS, ASK_MS, WAKE_MS, GAP_MS, FLUSH_MS = 0.004, 0.001, 0.01, 0.001, 0.04


@dataclass(eq=False, kw_only=True)
class Step:
    """One thing in a stream. ``fills``: it needs the GPU. ``after``: what it waits for, besides its stream."""

    stream: str
    submitted: float
    ms: float = 0.0
    fills: bool = False
    after: Step | None = None
    end: float = math.inf


class MadeUpGpu:
    """What ``unjoined`` needs of a driver, and what a subject needs of torch. ``interrupt`` gives host ms per submission."""

    def __init__(self, interrupt: Callable[[], float] = lambda: 0.0) -> None:
        self.now, self._free, self._interrupt = 0.0, 0.0, interrupt
        self._waiting: list[Step] = []
        self._last: dict[str, Step] = {}
        self._marks: dict[str, Step] = {}
        self._ended: dict[str, float] = {}

    def kernel(self, ms: float, stream: str = "main", *, later: float = 0.0) -> None:
        """Launch a kernel, or let a thread do that ``later``."""
        self._submit(stream, ms=ms, fills=True, later=later)

    def spin(self, ms: float, stream: str = "main") -> None:
        """Hold one stream, as a host function or a kernel of one thread does."""
        self._submit(stream, ms=ms)

    def wait(self, stream: str, other: str) -> None:
        """Let a stream wait for what another one has now."""
        self._submit(stream, after=self._last.get(other))

    def readings(self) -> None:
        """Make room for clocks. All are the same."""

    def fill(self, nanoseconds: int, _: object = None) -> None:
        """Fill the GPU."""
        self.kernel(nanoseconds / 1e6)

    def fill_often(self, times: int, nanoseconds: int, _: object) -> None:
        """Fill it from two streams in turn."""
        self.wait("beside", "main")
        for number in range(times):
            self.kernel(nanoseconds / 1e6, ("main", "beside")[number % 2])
        self.wait("main", "beside")

    def megahertz(self, before: None, after: None) -> float:
        """Return the clock."""
        return MHZ

    def mark(self, name: str) -> None:
        """Record an event."""
        self._marks[name] = self._submit("main")

    def has_passed(self, name: str) -> bool:
        """Look at an event. One that was never recorded has passed."""
        self.now += ASK_MS
        self._run()
        return name not in self._marks or self._marks[name].end <= self.now

    def milliseconds(self, first: str, second: str) -> float:
        """Return the time between two marks."""
        self._run()
        return self._marks[second].end - self._marks[first].end

    def synchronize(self) -> None:
        """Wait for all that was submitted."""
        self._run()
        self.now = max([self.now, *(step.end for step in self._last.values() if step.submitted <= self.now)]) + WAKE_MS

    def _submit(
        self, stream: str, *, ms: float = 0.0, fills: bool = False, after: Step | None = None, later: float = 0.0
    ) -> Step:
        self.now += SUBMIT_MS + self._interrupt()
        step = Step(stream=stream, submitted=self.now + later, ms=ms, fills=fills, after=after)
        self._waiting.append(step)
        self._last[stream] = step
        return step

    def _run(self) -> None:
        while self._waiting:
            heads = list({step.stream: step for step in reversed(self._waiting)}.values())
            ready = {id(step): self._ready(step) for step in heads}
            step = min(heads, key=lambda step: ready[id(step)])
            start = max(ready[id(step)], self._free) if step.fills else ready[id(step)]
            step.end = self._ended[step.stream] = start + step.ms
            if step.fills:
                self._free = step.end
            self._waiting.remove(step)

    def _ready(self, step: Step) -> float:
        gap = GAP_MS if step.fills else 0.0
        return max(step.submitted, self._ended.get(step.stream, 0.0) + gap, step.after.end if step.after is not None else 0.0)


Work = Callable[[MadeUpGpu], object]
"""One launch of a subject, on the stream ``main``."""


def timed(work: Work, launches: int = 9) -> float:
    """Return the ms that the worker measures: between two marks, cold, on a stream that is held until the host is ahead."""
    gpu = MadeUpGpu()
    work(gpu)
    gpu.synchronize()
    gpu.spin(20.0)
    for number in range(launches):
        gpu.kernel(FLUSH_MS)
        gpu.mark(f"start {number}")
        work(gpu)
        gpu.mark(f"stop {number}")
    gpu.synchronize()
    return statistics.median(gpu.milliseconds(f"start {number}", f"stop {number}") for number in range(launches))


def find(work: Work, ms: float | None = None, interrupt: Callable[[], float] = lambda: 0.0) -> str:
    """Return what ``unjoined`` finds of this work, which was timed with ``ms``."""
    gpu = MadeUpGpu(interrupt)

    def launch(hold: Callable[[], object]) -> None:
        gpu.kernel(FLUSH_MS)
        hold()
        work(gpu)

    with _host_clock(gpu):
        observed = unjoined.observe(gpu, launch, lambda: work(gpu))  # type: ignore[arg-type]
    return unjoined.describe(observed, timed(work) if ms is None else ms, MHZ)


@contextlib.contextmanager
def _host_clock(gpu: MadeUpGpu) -> Iterator[None]:
    with mock.patch.object(unjoined.time, "perf_counter", side_effect=lambda: gpu.now / 1e3):
        yield
