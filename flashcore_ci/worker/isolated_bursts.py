"""Deliver inputs to an untrusted candidate, let it launch, and copy its outputs, by the supervisor's clock."""

from __future__ import annotations

import itertools
import secrets
import statistics
import time
from typing import Any

from flashcore_ci.worker import tensors
from flashcore_ci.worker.audits import OutputChangedError, far_from
from flashcore_ci.worker.channel import number
from flashcore_ci.worker.clocks import Burst
from flashcore_ci.worker.isolated_subject import IsolatedSubject
from flashcore_ci.worker.job import Work
from flashcore_ci.worker.launchers import TimingContext
from flashcore_ci.worker.layout import Layout
from flashcore_ci.worker.redzones import CANARY
from flashcore_ci.worker.shared_memory import SharedMemory
from flashcore_ci.worker.supervisor import Candidate
from flashcore_ci.worker.unjoined import NotSeenError

SETS = (4, 8, 12, 16, 24, 32, 64)
MEMORY_SHARE, MAX_BYTES = 0.4, 27 << 30
IDLE_BURSTS = 3
IDLE_VALUES = 8
"""Sets of values that an idle burst delivers in turn. Large ones do not fit a cache, and with small ones the host is the slower part."""
SPARE_MEMORY = 1.25
AUDIT_TIMES_LIMIT = 2.0
MOVED_TIMES_LIMIT = 10.0
MOVED_MEAN = 0.2
"""Where no limit is known: ten times the 2 % of an audit."""
TRAP_GROWTH = 16


class InputsAlikeError(Exception):
    """Other inputs hardly move the reference, so kept outputs would pass."""


class Bursts:
    """The bursts of one workload: private inputs, and sets of buffers that the candidate shares."""

    def __init__(
        self, context: TimingContext, subject: IsolatedSubject, work: Work, limit: float | None, sets: int | None = None
    ) -> None:
        import torch

        self._context, self._subject, self._work, self._limit = context, subject, work, limit
        first = self._draw_one()
        self._snapshot = dict(subject.outputs(first))
        self.layout = Layout.of(first, self._snapshot)
        cached = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        room = min(MAX_BYTES, MEMORY_SHARE * (torch.cuda.mem_get_info()[0] + cached))
        self.sizes = [count for count in SETS if count * self.layout.bytes <= room] or [SETS[0]]
        self.sizes = [sets] if sets in self.sizes else self.sizes
        if torch.cuda.mem_get_info()[0] < SPARE_MEMORY * self.sizes[-1] * self.layout.bytes:
            torch.cuda.empty_cache()  # to give back and take memory is slow
        self.memory = SharedMemory(self.sizes[-1] * self.layout.bytes)
        self._bytes = self.memory.bytes()
        self._bytes.fill_(CANARY)
        self._views = [self.layout.views(self._bytes, index) for index in range(self.sizes[-1])]
        self._private, self._drawn = [first], 0
        self._last_reference: dict[str, Any] | None = None
        self._trap_size = 1
        self._answer: dict[str, Any] = {}
        self.mhz: list[float] = []

    def close(self) -> None:
        """Unmap the shared memory."""
        import torch

        torch.cuda.synchronize()
        self._views, self._bytes = [], None
        self.memory.close()

    def fill(self) -> None:
        """Draw the values of idle bursts."""
        while len(self._private) < min(IDLE_VALUES, self.sizes[-1]):
            self._private.append(self._draw_one())

    def run(
        self, candidate: Candidate, sets: int, launches: int, *, graph: bool = False, draw: bool = True, do: str = "launch"
    ) -> Burst:
        """Deliver inputs to all sets, launch on the first ones, and copy the outputs of a random launch: two clocks, without a gap.

        Each launch gets new values. The other sets get some of these too, so that every delivery is equally long. The launch to copy
        is drawn before. Later its outputs could still change.
        """
        import torch

        if draw:
            self._draw(launches)
            self._drawn = secrets.randbelow(max(1, launches))
        ticks = [self._context.driver.tick()]
        torch.cuda.synchronize()
        began = time.perf_counter()
        for private, (inputs, outputs) in zip(itertools.cycle(self._private), self._views[:sets], strict=False):
            for name in self.layout.inputs:
                inputs[name].copy_(private[name])
            tensors.poison(outputs, 0)
        self._context.driver.reset_persisting_lines()
        self._context.empty_l2()
        torch.cuda.synchronize()
        delivered = time.perf_counter()
        self._answer = answer = candidate.ask(do, launches=launches, graph=graph)
        for name, tensor in self._views[self._drawn][1].items():
            self._snapshot[name].copy_(tensor)
        torch.cuda.synchronize()
        ended = time.perf_counter()
        ticks.append(self._context.driver.tick())
        self.mhz.append(self._context.driver.megahertz(*ticks))
        if launches:
            holes = torch.stack([_count_poisoned(outputs) for _, outputs in self._views[:sets]]).tolist()
            self._check_written(holes, launches)
        delivery, outside = 1e3 * (delivered - began), 1e3 * (ended - delivered)
        return Burst(launches=launches, outside=outside, inside=number(answer, "ms"), delivery=delivery)

    def idle(self, candidate: Candidate) -> dict[int, Burst]:
        """Return a burst without launches, by the number of sets. The candidate's code is not loaded yet."""
        found: dict[int, Burst] = {}
        for sets in reversed(self.sizes):
            bursts = [self.run(candidate, sets, 0, draw=False) for _ in range(IDLE_BURSTS + (not found))][-IDLE_BURSTS:]
            outside, delivery = (statistics.median(getattr(burst, name) for burst in bursts) for name in ("outside", "delivery"))
            found[sets] = Burst(launches=0, outside=outside, inside=0.0, delivery=delivery)
        return found

    def audit(self) -> None:
        """Compare the drawn launch with the reference, and the reference with the one before."""
        expected = self._subject.reference(self._private[self._drawn])
        self._compare(expected)
        if self._last_reference is not None and not self._has_moved(self._last_reference, expected):
            raise InputsAlikeError("two draws of the inputs give nearly the same reference")
        self._last_reference = expected

    def trap(self, candidate: Candidate, sets: int, launches: int, *, graph: bool) -> None:
        """Repeat a burst on the same values but a few, somewhere. OutputChangedError if a launch does not notice."""
        self._drawn = secrets.randbelow(launches)
        del self._private[launches:]  # the other sets then get values twice, as in any other burst of so few launches
        self._private[self._drawn], expected = self._change_somewhere(self._private[self._drawn])
        self.run(candidate, sets, launches, graph=graph, draw=False)
        self._compare(expected)

    def watch(self, candidate: Candidate, sets: int, launches: int, *, graph: bool) -> None:
        """Let the process look for its work on other streams, in launches that have an audit.

        OutputChangedError if it finds some, NotSeenError if it could not look.
        """
        self.run(candidate, sets, launches, graph=graph, do="watch")
        self.audit()
        if "unseen" in self._answer:
            raise NotSeenError(f"in its own process, {str(self._answer['unseen'])[:200]}")
        if self._answer.get("found") != "":
            raise OutputChangedError(f"in its own process, {str(self._answer.get('found'))[:200]}")

    def check_red_zones(self) -> None:
        """Raise ValueError if anything was written between the tensors."""
        if self.layout.overwritten(self._bytes, self.sizes[-1]):
            raise ValueError("wrote next to a tensor, outside of its memory")

    def _draw(self, sets: int) -> None:
        self._private = []
        for _ in range(sets):
            self._private.append(self._draw_one())
        if Layout.of(self._private[-1], self._views[0][1]) != self.layout:
            raise ValueError("inputs() gives other shapes or options for another seed, which cannot be timed in isolation")

    def _draw_one(self) -> dict[str, Any]:
        return self._subject.inputs(self._work.params, secrets.randbits(48))

    def _change_somewhere(self, values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values with a few others from another draw, just enough to move the reference, and the new reference."""
        before, other = self._subject.reference(values), self._draw_one()
        places = [name for name in self.layout.inputs if tensors.may_change(other[name], other[name])]
        largest = max((other[name].numel() for name in places), default=0)
        while self._trap_size < TRAP_GROWTH * largest:
            name = secrets.choice(places)
            changed = {**values, name: _splice(values[name], other[name], self._trap_size)}
            expected = self._subject.reference(changed)
            if self._has_moved(before, expected):
                return changed, expected
            self._trap_size *= TRAP_GROWTH
        raise InputsAlikeError("a whole input can change, and the reference hardly moves")

    def _compare(self, expected: dict[str, Any]) -> None:
        shared = self._views[self._drawn][0]
        tensors.refuse_changed({name: shared[name] for name in self.layout.inputs}, self._private[self._drawn])
        shapes = [{name: tensor.shape for name, tensor in side.items()} for side in (expected, self._snapshot)]
        if shapes[0] != shapes[1]:
            raise ValueError("the reference has other outputs than outputs()")
        if self._is_off(self._snapshot, expected):
            raise OutputChangedError("a timed launch, drawn at random, on inputs that were new, is off the reference")

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


def _count_poisoned(outputs: dict[str, Any]) -> Any:
    import torch

    return torch.stack([tensors.still_poisoned(tensor, 0).sum() for tensor in outputs.values()]).sum()


def _splice(tensor: Any, other: Any, count: int) -> Any:
    """Return a copy of a tensor with ``count`` neighbours of the other one, at a random place."""
    flat = tensor.contiguous().clone().view(-1)
    count = min(count, flat.numel())
    start = secrets.randbelow(flat.numel() - count + 1)
    flat[start : start + count] = other.contiguous().view(-1)[start : start + count]
    return flat.view(tensor.shape)


def _distance(first: Any, second: Any) -> float:
    """Return the largest difference, or NaN. Equal infinities differ by nothing."""
    if not first.numel():
        return 0.0
    first, second = first.float(), second.float()
    largest = float((first - second).abs_().max())
    if largest == largest:  # noqa: PLR0124 - only NaN differs from itself
        return largest
    return float((first - second).abs_().masked_fill_(first == second, 0.0).max())
