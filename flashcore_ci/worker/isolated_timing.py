"""Time an untrusted candidate by the supervisor's clock, on inputs that it has not seen.

- A burst is N or 2N launches, each on its own set of buffers. All 2N sets get new values, from seeds that only this process knows.
- The clock starts before the values are copied to shared memory, and stops after all outputs were read. So work before the command,
  after the answer or on another stream is inside.
- Now and then a burst is repeated on the same values but a few, at a random place. Kept outputs are wrong then.
- Sets that were not to be launched must still hold poison. One random launch is compared with the reference.
- The slope from N to 2N is the time of a launch.

docs/trust.md says what each of these is for.
"""

from __future__ import annotations

import random
import secrets
import statistics
import time
from typing import Any

from flashcore_ci.model import isolation
from flashcore_ci.model.codes import Code
from flashcore_ci.model.timing_protocol import LEAD_SECONDS, MAX_SECONDS, SHORT_MS, WINDOW_SECONDS
from flashcore_ci.worker import clocks, steady_state, tensors
from flashcore_ci.worker.audits import OutputChangedError, far_from
from flashcore_ci.worker.channel import number
from flashcore_ci.worker.clocks import Burst, Pair
from flashcore_ci.worker.job import Work, missing
from flashcore_ci.worker.launchers import TimingContext
from flashcore_ci.worker.layout import Layout
from flashcore_ci.worker.redzones import CANARY
from flashcore_ci.worker.sensors import SensorReading, summarize
from flashcore_ci.worker.shared_memory import SharedMemory
from flashcore_ci.worker.steady_state import Block
from flashcore_ci.worker.supervisor import Candidate, IsolatedSubject

SETS = (4, 8, 16, 32, 64)
BURST_MS = 5.0
MEMORY_SHARE = 0.4
WINDOW_PAIRS = 10
MAX_DRIFT_PERCENT = 1.0
IDLE_BURSTS = 3
AUDIT_TIMES_LIMIT = 2.0
MOVED_TIMES_LIMIT = 10.0
TRAP_GROWTH = 16
TRAP_ONE_IN = 4
MOVED_MEAN = 0.2
"""Where no limit is known: ten times the 2 % of an audit."""


class InputsAlikeError(Exception):
    """Other seeds hardly move the reference, so kept outputs would pass."""


class Bench:
    """The buffers of one workload: private inputs, and shared sets."""

    def __init__(self, context: TimingContext, subject: IsolatedSubject, work: Work, limit: float | None) -> None:
        import torch

        self._context, self._subject, self._work, self._limit = context, subject, work, limit
        first = subject.inputs(work.params, secrets.randbits(48))
        self.layout = Layout.of(first, subject.outputs(first))
        del first
        torch.cuda.empty_cache()
        room = MEMORY_SHARE * torch.cuda.mem_get_info()[0] / 2
        self.sizes = [count for count in SETS if count * self.layout.bytes <= room] or [SETS[0]]
        self.memory = SharedMemory(self.sizes[-1] * self.layout.bytes)
        self._bytes = self.memory.bytes()
        self._bytes.fill_(CANARY)
        self._views = [self.layout.views(self._bytes, index) for index in range(self.sizes[-1])]
        self._private: list[dict[str, Any]] = []
        self._last_reference: dict[str, Any] | None = None
        self._trap_size = 1
        self.mhz: list[float] = []

    def close(self) -> None:
        """Unmap the shared memory."""
        import torch

        torch.cuda.synchronize()
        self._views, self._bytes = [], None
        self.memory.close()

    def burst(self, sets: int, launches: int, candidate: Candidate | None, *, graph: bool = False, draw: bool = True) -> Burst:
        """Deliver new inputs, launch on the first sets, and read all outputs, inside the clock."""
        import torch

        if draw and (candidate is not None or len(self._private) < sets):
            self._draw(sets)
        before = self._context.driver.tick()
        torch.cuda.synchronize()
        began = time.perf_counter()
        for private, (inputs, outputs) in zip(self._private[:sets], self._views, strict=False):
            for name in self.layout.inputs:
                inputs[name].copy_(private[name])
            tensors.poison(outputs, 0)
        self._context.driver.reset_persisting_lines()
        self._context.empty_l2()
        torch.cuda.synchronize()
        answer = {} if candidate is None else candidate.ask("launch", launches=launches, graph=graph)
        holes = torch.stack([self._poisoned(outputs) for _, outputs in self._views[:sets]]).tolist()
        outside = 1e3 * (time.perf_counter() - began)
        self.mhz.append(self._context.driver.megahertz(before, self._context.driver.tick()))
        self._check_written(holes, launches)
        return Burst(launches=launches, outside=outside, inside=number(answer, "ms") if answer else 0.0)

    def idle(self) -> dict[int, float]:
        """Return the ms of a burst without launches, by the number of sets."""
        counts = reversed(self.sizes)
        return {sets: statistics.median(self.burst(sets, 0, None).outside for _ in range(IDLE_BURSTS)) for sets in counts}

    def audit(self, launches: int) -> None:
        """Compare a random launch of the last burst with the reference, and the reference with the one before."""
        drawn = secrets.randbelow(launches)
        expected = self._subject.reference(self._private[drawn])
        self._compare(drawn, expected)
        if self._last_reference is not None and not self._has_moved(self._last_reference, expected):
            raise InputsAlikeError("two draws of the inputs give nearly the same reference")
        self._last_reference = expected

    def trap(self, sets: int, launches: int, candidate: Candidate, *, graph: bool) -> None:
        """Repeat a burst on the same values but a few, somewhere. OutputChangedError if a launch does not notice."""
        drawn = secrets.randbelow(launches)
        before, other = (
            self._subject.reference(self._private[drawn]),
            self._subject.inputs(self._work.params, secrets.randbits(48)),
        )
        places = [name for name in self.layout.inputs if tensors.may_change(other[name], other[name])]
        changed, expected = dict(self._private[drawn]), before
        while not self._has_moved(before, expected):
            if not places or self._trap_size >= TRAP_GROWTH * max(other[name].numel() for name in places):
                raise InputsAlikeError("all of the inputs can change, and the reference hardly does")
            changed = {
                **self._private[drawn],
                **_changed_somewhere(self._private[drawn], other, secrets.choice(places), self._trap_size),
            }
            expected = self._subject.reference(changed)
            self._trap_size *= 1 if self._has_moved(before, expected) else TRAP_GROWTH
        self._private[drawn] = changed
        self.burst(sets, launches, candidate, graph=graph, draw=False)
        self._compare(drawn, expected)

    def _compare(self, drawn: int, expected: dict[str, Any]) -> None:
        shared, outputs = self._views[drawn]
        tensors.refuse_changed({name: shared[name] for name in self.layout.inputs}, self._private[drawn])
        if {name: tensor.shape for name, tensor in expected.items()} != {name: tensor.shape for name, tensor in outputs.items()}:
            raise ValueError("the reference has other outputs than outputs()")
        if self._is_off(outputs, expected):
            raise OutputChangedError("a timed launch, drawn at random, on inputs that were new, is off the reference")

    def check_red_zones(self) -> None:
        """Raise ValueError if anything was written between the tensors."""
        if self.layout.overwritten(self._bytes, self.sizes[-1]):
            raise ValueError("wrote next to a tensor, outside of its memory")

    def _draw(self, sets: int) -> None:
        self._private = []
        for _ in range(sets):
            inputs = self._subject.inputs(self._work.params, secrets.randbits(48))
            if not self._private and Layout.of(inputs, self._views[0][1]) != self.layout:
                raise ValueError("inputs() gives other shapes or options for another seed, which cannot be timed in isolation")
            self._private.append(inputs)

    def _poisoned(self, outputs: dict[str, Any]) -> Any:
        import torch

        return torch.stack([tensors.still_poisoned(tensor, 0).sum() for tensor in outputs.values()]).sum()

    def _check_written(self, holes: list[int], launches: int) -> None:
        elements = sum(tensor.numel() for tensor in self._views[0][1].values())
        if any(holes[:launches]):
            raise OutputChangedError("a timed launch left some of its output unwritten")
        if any(count != elements for count in holes[launches:]):
            raise OutputChangedError("an output was written that no launch was to write")

    def _is_off(self, outputs: dict[str, Any], expected: dict[str, Any]) -> bool:
        if self._limit is None:
            return far_from(outputs, expected)
        return any(not _distance(outputs[name], expected[name]) <= AUDIT_TIMES_LIMIT * self._limit for name in outputs)

    def _has_moved(self, before: dict[str, Any], now: dict[str, Any]) -> bool:
        if self._limit is None:
            return any(tensors.mean_error(now[name], before[name]) >= MOVED_MEAN for name in now)
        return any(_distance(now[name], before[name]) >= MOVED_TIMES_LIMIT * self._limit for name in now)


def _changed_somewhere(values: dict[str, Any], other: dict[str, Any], name: str, count: int) -> dict[str, Any]:
    """Return a copy of one tensor with ``count`` neighbours of the other draw."""
    tensor, fresh = values[name].clone(), other[name]
    flat, source = tensor.view(-1) if tensor.is_contiguous() else tensor.contiguous().view(-1), fresh.contiguous().view(-1)
    count = min(count, flat.numel())
    start = secrets.randbelow(flat.numel() - count + 1)
    flat[start : start + count] = source[start : start + count]
    return {name: flat.view(tensor.shape)}


def _distance(first: Any, second: Any) -> float:
    return float(tensors.largest_difference(first, second).value)


def measure(
    context: TimingContext, subject: IsolatedSubject, work: Work, *, batched: bool | None, limit: float | None
) -> dict[str, Any]:
    """Return the outcome of one workload, in a new process of the candidate."""
    candidate = subject.fresh()
    if subject.isolation is not None:
        subject.isolation["clock"] = isolation.CLOCK
    bench = Bench(context, subject, work, limit)
    try:
        idle = bench.idle()
        candidate.load()
        candidate.share(bench.memory, bench.layout, bench.sizes[-1])
        sets, graph = _choose(bench, candidate, batched)
        return _measure_pairs(context, bench, candidate, sets, graph=graph, idle=idle[sets])
    except OutputChangedError as error:
        return missing(Code.OUTPUT_CHANGED, str(error))
    except InputsAlikeError as error:
        return missing(Code.INPUTS_ALIKE, str(error))
    finally:
        subject.close()
        bench.close()


def _choose(bench: Bench, candidate: Candidate, batched: bool | None) -> tuple[int, bool]:
    """Choose the number of sets, and whether launches are in a CUDA graph."""
    smallest = bench.sizes[0]
    for _ in range(2):
        bench.burst(smallest, 1, candidate)
    trial = [Pair(short=bench.burst(smallest, 1, candidate), long=bench.burst(smallest, smallest, candidate)) for _ in range(3)]
    cost = max(1e-3, statistics.median(pair.outside for pair in trial))
    sets = next((count for count in bench.sizes if count / 2 * cost >= BURST_MS), bench.sizes[-1])
    graph = cost < SHORT_MS if batched is None else batched
    if graph:
        for launches in (sets // 2, sets):
            candidate.ask("capture", launches=launches)
    return sets, graph


def _measure_pairs(
    context: TimingContext, bench: Bench, candidate: Candidate, sets: int, *, graph: bool, idle: float
) -> dict[str, Any]:
    pairs: list[Pair] = []
    blocks: list[Block] = []
    readings: list[SensorReading] = []
    began = time.perf_counter()
    bench.burst(sets, sets, candidate, graph=graph)
    while not _is_settled(blocks) and (not blocks or blocks[-1].at < MAX_SECONDS):
        bench.mhz.clear()
        bursts = {}
        for launches in random.sample((sets // 2, sets), 2):
            bursts[launches] = bench.burst(sets, launches, candidate, graph=graph)
            bench.audit(launches)
        if not pairs or not secrets.randbelow(TRAP_ONE_IN):
            bench.trap(sets, launches, candidate, graph=graph)
        pairs.append(Pair(short=bursts[sets // 2], long=bursts[sets]))
        reading = context.sensors.read()
        readings.extend(() if reading is None else (reading,))
        throttled = reading is not None and reading.throttled
        at = time.perf_counter() - began
        blocks.append(Block(at=at, ms=max(1e-6, pairs[-1].outside), mhz=statistics.fmean(bench.mhz), throttled=throttled))
    bench.check_red_zones()
    recent = pairs[-WINDOW_PAIRS:]
    inside = statistics.median(pair.inside for pair in recent)
    shared = statistics.median(pair.shared for pair in recent)
    record = _record(blocks, sets, graph=graph)
    record["clocks"] = {"inside_ms": round(inside, 6), "shared_ms": round(shared, 4), "idle_ms": round(idle, 4)}
    record |= {} if _is_settled(blocks) else missing(Code.UNSETTLED, f"cycles still drift after {MAX_SECONDS:.0f} s")
    wrong = clocks.disagreement(recent, idle)
    return (record | missing(Code.CLOCKS_DISAGREE, wrong) if wrong else record) | summarize(readings)


def _is_settled(blocks: list[Block]) -> bool:
    recent = [block for block in blocks[-WINDOW_PAIRS:] if not block.throttled]
    complete = len(recent) == WINDOW_PAIRS and blocks[-1].at >= LEAD_SECONDS + WINDOW_SECONDS
    return complete and abs(steady_state.relative_drift(recent)) < MAX_DRIFT_PERCENT


def _record(blocks: list[Block], sets: int, *, graph: bool) -> dict[str, Any]:
    kept = blocks[-WINDOW_PAIRS:]
    return {
        "ms": statistics.median(block.ms for block in kept),
        "megacycles": statistics.median(block.megacycles for block in kept),
        "mhz": statistics.median(block.mhz for block in kept),
        "std_percent": round(steady_state.relative_std([block.megacycles for block in kept]), 4),
        "kept": len(kept),
        "dropped": sum(block.throttled for block in blocks),
        "batched": graph,
        "launches_per_block": sets + sets // 2,
        "blocks": [[round(block.at, 3), round(block.ms, 6), round(block.mhz, 1)] for block in blocks],
    }
