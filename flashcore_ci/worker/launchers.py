"""Two ways to launch for the clock, both into poisoned outputs and with a cold L2.

``Single``: one launch between two events. ``Batch``, for kernels under 50 µs, where events and launches would be most of what
is seen: a CUDA graph of one launch for each of many sets between two events. The L2 is flushed before the graph and no set
comes twice in it, so that each of its launches is as cold.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flashcore_ci.worker import tensors
from flashcore_ci.worker.buffers import Set, Sets
from flashcore_ci.worker.driver import Driver
from flashcore_ci.worker.sensors import Sensors
from flashcore_ci.worker.subject_file import last_line

SINGLE_SETS = 3
BATCH_SETS = (16, 64)
FLUSH_TIMES_L2 = 2
TRIALS = 5
HELD_UP_CYCLES = 10_000_000  # about 5 ms: longer than it takes to submit the trials


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What timing needs of this process; ``flush`` is a buffer of twice the L2."""

    driver: Driver
    sensors: Sensors
    flush: Any

    def empty_l2(self) -> None:
        """From here on the L2 holds the buffer alone: lines that persist, where the subject allows any, are given back first."""
        if self.driver.persisting_bytes():
            self.driver.reset_persisting_lines()
        self.flush.zero_()


class Single:
    """One launch at a time, each on the next set."""

    launches = 1

    def __init__(self, bench: Bench, sets: Sets) -> None:
        self._bench, self._sets = bench, sets
        self._number = 0
        self.last: Set = sets.all[0]

    def launch(self) -> tuple[Any, Any]:
        """The event pair around a launch."""
        self.last = self._sets.all[self._number % len(self._sets.all)]
        self._number += 1
        tensors.poison(self.last.outputs, 0)
        self._bench.empty_l2()
        return _between_events(lambda: self._sets.subject.run(self.last.inputs, self.last.outputs))


class Batch:
    """A graph of a launch on every set. ValueError when a launch cannot be captured."""

    def __init__(self, bench: Bench, sets: Sets, choose: Callable[[list[Set]], Set]) -> None:
        self._bench, self._sets, self._choose = bench, sets, choose
        self.launches = len(sets.all)
        self._poison = _captured(lambda one: tensors.poison(one.outputs, 0), sets.all)
        try:
            self._graph = _captured(lambda one: sets.subject.run(one.inputs, one.outputs), sets.all)
        except Exception as error:
            raise ValueError(
                f"launches under 50 µs are timed in a CUDA graph, which refuses this one: {last_line(error)}"
            ) from error
        self.last: Set = sets.all[0]

    def launch(self) -> tuple[Any, Any]:
        """The event pair around the graph."""
        self.last = self._choose(self._sets.all)
        self._poison.replay()
        self._bench.empty_l2()
        return _between_events(self._graph.replay)


Way = Single | Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Milliseconds: between the events, from one event pair to the next on the GPU, and to submit one on the host."""

    timed: float
    device: float
    host: float


def pace(way: Way) -> Pace:
    """How fast this way goes. The stream is held up meanwhile, so that nothing waits for the host."""
    import torch

    way.launch()
    torch.cuda.synchronize()
    torch.cuda._sleep(HELD_UP_CYCLES)  # noqa: SLF001 - the one way to hold up a stream, used by PyTorch's own tests
    began = time.perf_counter()
    events = [way.launch() for _ in range(TRIALS)]
    host = (time.perf_counter() - began) / TRIALS * 1e3
    torch.cuda.synchronize()
    return Pace(
        timed=statistics.median(start.elapsed_time(stop) for start, stop in events),
        device=events[0][0].elapsed_time(events[-1][0]) / (TRIALS - 1),
        host=host,
    )


def batch_size(sets: Sets, l2: int) -> int:
    """Sets enough that they exceed twice the L2 together, within reason."""
    fewest, most = BATCH_SETS
    return max(fewest, min(most, 1 + FLUSH_TIMES_L2 * l2 // max(1, sets.bytes)))


def _between_events(action: Callable[[], object]) -> tuple[Any, Any]:
    import torch

    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    action()
    stop.record()
    return start, stop


def _captured(action: Callable[[Set], object], sets: list[Set]) -> Any:
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for one in sets:
            action(one)
    return graph
