"""Launch a workload for timing, into poisoned outputs and with a cold L2.

Kernels under 50 µs are launched in two CUDA graphs, because launch overhead would dominate. Each launch in one has other buffers. The
longer one has twice as many, and the slope is the time of a launch: to start a graph costs 6 to 17 µs, 4 µs more in some processes
than in others (docs/protocol.md).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from flashcore_ci.model.timing_protocol import COMPARED, Settling
from flashcore_ci.worker import tensors
from flashcore_ci.worker.buffers import BufferPool, BufferSet
from flashcore_ci.worker.driver import Driver
from flashcore_ci.worker.sensors import Sensors
from flashcore_ci.worker.subject_file import last_line

SINGLE_SETS = 3
GRAPH_SETS = (16, 64)
WARM_GRAPHS, WARM_REPLAYS = (64, 64, 32), 3
"""Launches in each graph that is made and removed before the first one that is timed."""
FLUSH_TIMES_L2 = 2
TRIALS = 5
HOLD_CYCLES_PER_MS = 2_000_000  # at a Hopper's highest clock: a lower clock holds the stream longer
HOLD_MS = (5.0, 100.0)
HOLD_TIMES_HOST = 1.5  # to submit the trials takes longer than the first of them, if the host is busy
LEAST_MS = 1e-6
"""The shortest time of a launch: noise can make a slope negative."""

Pair = tuple[Any, Any]
Marks = tuple[Pair, ...]
"""The events before and after each part of a timed launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingContext:
    """What workloads share. ``flush`` is twice the L2, ``rule`` says when a measurement has settled."""

    driver: Driver
    sensors: Sensors
    flush: Any
    rule: Settling = COMPARED

    def empty_l2(self) -> None:
        """Overwrite the L2, including persisting lines, which a flush does not evict."""
        if self.driver.persisting_bytes():
            self.driver.reset_persisting_lines()
        self.flush.zero_()

    def worst(self, values: list[float]) -> list[float]:
        """Return the values: one GPU has no slower neighbour."""
        return values


class SingleLaunch:
    """Launch once per event pair, on the next buffers."""

    launches = submitted = 1
    """Launches of ``again``, and of ``launch``."""
    start = 0.0
    """What ``again`` costs in addition to its launches, in ms."""

    def __init__(self, context: TimingContext, pool: BufferPool) -> None:
        self.context, self._pool = context, pool
        self._number = 0
        self.last: BufferSet = pool.sets[0]

    def launch(self, hold: Callable[[], object] | None = None) -> Marks:
        """Return the event pair around one launch. ``hold`` comes right before them."""
        self.last = self._pool.sets[self._number % len(self._pool.sets)]
        self._number += 1
        tensors.poison(self.last.outputs, 0)
        self.context.empty_l2()
        if hold is not None:
            hold()
        return (between_events(self.again),)

    def again(self) -> None:
        """Launch on the same buffers, without events."""
        self._pool.subject.run(self.last.inputs, self.last.outputs)

    def milliseconds(self, marks: Marks) -> float:
        """Return the time of one launch."""
        ((start, stop),) = marks
        return float(start.elapsed_time(stop))


class GraphLaunch:
    """Launch once on half of the buffer sets and then on each, as two CUDA graphs. ValueError if impossible."""

    def __init__(self, context: TimingContext, pool: BufferPool, choose: Callable[[list[BufferSet]], BufferSet]) -> None:
        _warm_graphs()
        self.context, self._pool, self._choose = context, pool, choose
        self.launches = len(pool.sets)
        self.short = self.launches // 2
        self.submitted = self.short + self.launches
        self._poison = _capture(lambda buffers: tensors.poison(buffers.outputs, 0), pool.sets)
        try:
            self._short, self._long = (
                _capture(lambda buffers: pool.subject.run(buffers.inputs, buffers.outputs), pool.sets[:count])
                for count in (self.short, self.launches)
            )
        except Exception as error:
            why = f"this launch cannot be captured: {last_line(error)}"
            raise ValueError(f"launches under 50 µs are timed in a CUDA graph, and {why}") from error
        self.last: BufferSet = pool.sets[0]
        self._starts: list[float] = []

    @property
    def start(self) -> float:
        """What a graph costs in addition to its launches, in ms."""
        return statistics.median(self._starts)

    def launch(self, hold: Callable[[], object] | None = None) -> Marks:
        """Return the event pairs around both graphs. ``hold`` comes right before the longer one, which is then alone."""
        self.last = self._choose(self._pool.sets)
        if hold is None:
            self._make_cold()
            return between_events(self._short.replay), self._launch_cold()
        return (self._launch_cold(hold),)

    def again(self) -> None:
        """Launch the longer graph, without events."""
        self._long.replay()

    def milliseconds(self, marks: Marks) -> float:
        """Return the time of one launch, without what it costs to start a graph."""
        short, long = (start.elapsed_time(stop) for start, stop in marks)
        slope = max(LEAST_MS, float(long - short) / (self.launches - self.short))
        self._starts.append(float(short) - self.short * slope)
        return slope

    def _launch_cold(self, hold: Callable[[], object] = bool) -> Pair:
        self._make_cold()
        hold()
        return between_events(self.again)

    def _make_cold(self) -> None:
        self._poison.replay()
        self.context.empty_l2()


Launcher = SingleLaunch | GraphLaunch


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCost:
    """Milliseconds: of a launch, and from one ``launch`` to the next on GPU and on host."""

    timed: float
    device: float
    host: float


def measure_cost(launcher: Launcher) -> LaunchCost:
    """Measure a few launches while the stream is held."""
    import torch

    began = time.perf_counter()
    launcher.launch()
    hold_stream(TRIALS * (time.perf_counter() - began))
    began = time.perf_counter()
    marks = [launcher.launch() for _ in range(TRIALS)]
    host = (time.perf_counter() - began) / TRIALS * 1e3
    torch.cuda.synchronize()
    timed = statistics.median(map(launcher.milliseconds, marks))
    (first, _), (last, _) = marks[0][0], marks[-1][0]
    return LaunchCost(timed=timed, device=first.elapsed_time(last) / (TRIALS - 1), host=host)


def hold_stream(seconds: float) -> None:
    """Let the idle stream sleep for longer than the host needs to submit ``seconds`` of launches, at most 100 ms."""
    import torch

    torch.cuda.synchronize()
    hold = sorted((*HOLD_MS, HOLD_TIMES_HOST * 1e3 * seconds))[1]
    torch.cuda._sleep(int(hold * HOLD_CYCLES_PER_MS))  # noqa: SLF001 - nothing public holds a stream; PyTorch's own tests use it


def graph_size(pool: BufferPool, l2: int) -> int:
    """Return how many sets (16 to 64) exceed twice the L2."""
    fewest, most = GRAPH_SETS
    return max(fewest, min(most, 1 + FLUSH_TIMES_L2 * l2 // max(1, pool.bytes_per_set)))


def between_events(action: Callable[[], object]) -> Pair:
    """Return the event pair around an action."""
    import torch

    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    action()
    stop.record()
    return start, stop


@cache
def _warm_graphs() -> None:
    """Launch graphs as large as any, once. The first ones decide what a launch costs in all later ones: 36 ns more or less."""
    import torch

    scratch = torch.zeros(1, device="cuda")
    graphs = [_capture(lambda _: scratch.add_(1), [None] * count) for count in WARM_GRAPHS]
    for graph in graphs:
        for _ in range(WARM_REPLAYS):
            graph.replay()
    torch.cuda.synchronize()


def _capture(action: Callable[[Any], object], sets: Sequence[Any]) -> Any:
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for buffers in sets:
            action(buffers)
    return graph
