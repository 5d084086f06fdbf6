"""A machine that runs the barrier ledger of decode (kernel/README.md), and a search of all its interleavings.

The agents are one producer, consumer warps, and TMA, which may deliver expected bytes at any later moment. The producer pushes a
split to the work queue when the split's first copies are in flight. A warp pops the split, releases its slot at once, reads the
tiles and releases them. Then it merges: statistics, then sums (once or twice 8 rows). A work tile with several splits also has
partial results in the workspace, which warp 0 counts. A barrier separates the writes of one warp from the reads of another.

Keys of small pages are copied by several producer warps, each its part of a tile. A warp's arrival happens when its copies have landed.
The first of them pushes the splits. Warps for the scales of single keys take turns with the tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Barrier = tuple[int, int, int]  # incomplete phase, missing arrivals, missing copies

END = "end"
ALL = -1  # cells of an array
BARRIERS = ("split full", "split empty", "tile full", "tile empty")
ARRAYS = ("split", "tile", "statistics", "sums", "partials", "finished")


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The case under test and its one mistake, which the search must find."""

    splits: tuple[int, ...] = (2, 1)  # tiles of each
    slots: int = 2  # of the ring of tiles
    queue: int = 2  # slots of the work queue
    warps: int = 2
    halves: int = 1  # passes over eight rows
    segments: bool = False  # the splits are segments of a deterministic launch
    fixup: bool = False  # work tiles have several splits
    copiers: int = 0  # producer warps that copy their part of every tile, 0: one that uses TMA
    scalers: int = 0  # warps that copy scales, each those of every so-manieth tile
    mistake: str = ""

    @property
    def parts(self) -> int:
        return max(self.copiers, 1) + (self.scalers > 0)

    def arrivals(self, barrier: str) -> int:
        if self.mistake == f"one arrival frees a slot: {barrier}":
            return 1
        if self.mistake == f"an arrival is missing: {barrier}":
            return (self.parts if barrier == "tile full" else self.warps) + 1
        if self.mistake == "one arrival fills a slot" and barrier == "tile full":
            return 1
        return self.parts if barrier == "tile full" else self.warps if barrier.endswith("empty") else 1


class Op(NamedTuple):
    """One operation on a slot of a barrier or array: wait, arrive, expect_tx, copy, write, check or sync. `what` is a parity or value.

    A warp's copies land in its part of the slot.
    """

    kind: str
    name: str = ""
    slot: int = 0
    what: object = None


def producer(ledger: Ledger, warp: int = 0) -> list[Op]:
    ops: list[Op] = []
    sent = 0
    for split, tiles in enumerate(ledger.splits):
        sends = [send(ledger, sent + tile, (split, tile)) for tile in range(tiles)]
        sent += tiles
        if warp == 0:
            sends.insert(tiles if ledger.mistake == "pushed when all its tiles are sent" else 1, push(ledger, split, split))
        ops += [op for one in sends for op in one]
    if warp > 0:
        return ops
    if ledger.mistake == "a tile of a pushed split is never sent":
        del ops[-2:]
    return ops if ledger.mistake == "no end is pushed" else ops + push(ledger, len(ledger.splits), END)


def scaler(ledger: Ledger, warp: int) -> list[Op]:
    tiles = [(split, tile) for split, count in enumerate(ledger.splits) for tile in range(count)]
    step = 1 if ledger.mistake == "a warp copies the scales of all tiles" else ledger.scalers
    return [op for i in range(warp, len(tiles), step) for op in send(ledger, i, tiles[i], copies=True)]


def send(ledger: Ledger, number: int, tile: object, *, copies: bool = False) -> list[Op]:
    slot, parity = number % ledger.slots, number // ledger.slots % 2
    wrong = ledger.mistake == "the producer waits for the wrong parity: tile"
    ops = [Op("wait", "tile empty", slot, parity if wrong else 1 - parity)]
    if not (ledger.copiers or copies):
        return [*ops, Op("expect_tx", "tile full", slot, tile)]
    if ledger.mistake == "rows are copied before the slot is empty":
        ops = []
    early = ledger.mistake == "a warp arrives before its copies have landed"
    return [*ops, Op("copy", "tile full", slot, tile), *([Op("arrive", "tile full", slot)] if early else [])]


def push(ledger: Ledger, number: int, split: object) -> list[Op]:
    slot, parity = number % ledger.queue, number // ledger.queue % 2
    wrong = ledger.mistake == "the producer waits for the wrong parity: split"
    wait = Op("wait", "split empty", slot, parity if wrong else 1 - parity)
    write, full = Op("write", "split", slot, split), Op("arrive", "split full", slot)
    if ledger.mistake == "a split is pushed before its slot is empty":
        return [write, wait, full]
    return [wait, full, write] if ledger.mistake == "a split is pushed before it is written" else [wait, write, full]


def consumer(ledger: Ledger, warp: int) -> list[Op]:
    ops: list[Op] = []
    read = 0
    for split, tiles in enumerate(ledger.splits):
        ops += pop(ledger, "split", ledger.queue, split, split)
        for tile in range(tiles):
            ops += pop(ledger, "tile", ledger.slots, read, (split, tile))
            read += 1
        ops += merge(ledger, warp, split)
    return ops + pop(ledger, "split", ledger.queue, len(ledger.splits), END)


def pop(ledger: Ledger, ring: str, slots: int, number: int, what: object) -> list[Op]:
    slot, parity = number % slots, number // slots % 2
    ops = [Op("wait", f"{ring} full", slot, parity), Op("check", ring, slot, what), Op("arrive", f"{ring} empty", slot)]
    if ledger.mistake == f"released before it was read: {ring}":
        ops[1:] = ops[:0:-1]
    return ops


def merge(ledger: Ledger, warp: int, split: int) -> list[Op]:
    """Merge one split. Every sync is named after the mistake of omitting it."""
    ops = [Op("write", "statistics", warp, split), Op("sync", "weights before all statistics are there")]
    ops = [op for half in range(ledger.halves) for op in leave(warp, (split, half))] if ledger.segments else ops
    for half in range(0 if ledger.segments else ledger.halves):
        ops += [
            Op("check", "statistics", ALL, split),
            Op("write", "sums", warp, (split, half)),
            Op("sync", "added up before all sums are there"),
            Op("check", "sums", ALL, (split, half)),
        ]
        # After the last half the sync after the next split's statistics protects the sums.
        ops += [Op("sync", "sums are overwritten while they are read")] if half + 1 < ledger.halves else []
    if ledger.fixup:
        ops += [Op("write", "partials", warp, split), Op("sync", "counted before all of the split is in the workspace")]
        ops += [Op("check", "partials", ALL, split), Op("write", "finished", 0, split)] if warp == 0 else []
        ops += [Op("sync", "finished splits are read before they are counted"), Op("check", "finished", 0, split)]
    return [op for op in ops if not (op.kind == "sync" and op.name == ledger.mistake)]


def leave(warp: int, what: object) -> list[Op]:
    """Leave statistics and sums (ARRAYS[2:4]) of a segment at once, and add up those of all warps."""
    writes, checks = ([Op(kind, name, slot, what) for name in ARRAYS[2:4]] for kind, slot in (("write", warp), ("check", ALL)))
    return [Op("sync", "left while others add up"), *writes, Op("sync", "added up before all is left"), *checks]


class State(NamedTuple):
    at: tuple[int, ...]  # program counter of every agent
    waiting: frozenset[int]  # at the sync
    barriers: tuple[tuple[Barrier, ...], ...]
    cells: tuple[tuple[object, ...], ...]
    copies: frozenset[tuple[int, int, object]]  # in flight: slot, part and tile


def put(items: tuple[T, ...], i: int, item: T) -> tuple[T, ...]:
    return (*items[:i], item, *items[i + 1 :])


class Machine:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.programs = [producer(ledger, warp) for warp in range(max(ledger.copiers, 1))]
        self.programs += [scaler(ledger, warp) for warp in range(ledger.scalers)]
        self.programs += [consumer(ledger, warp) for warp in range(ledger.warps)]
        self.arrivals = [ledger.arrivals(barrier) for barrier in BARRIERS]

    def start(self) -> State:
        queue, slots, warps = self.ledger.queue, self.ledger.slots, self.ledger.warps
        barriers = tuple(((0, n, 0),) * size for n, size in zip(self.arrivals, (queue, queue, slots, slots), strict=True))
        cells = tuple((None,) * size for size in (queue, slots * self.ledger.parts, warps, warps, warps, 1))
        return State((0,) * len(self.programs), frozenset(), barriers, cells, frozenset())

    def finished(self, state: State) -> bool:
        return all(at == len(ops) for at, ops in zip(state.at, self.programs, strict=True)) and not state.copies

    def successors(self, state: State) -> Iterator[State]:
        for agent, (at, ops) in enumerate(zip(state.at, self.programs, strict=True)):
            if at < len(ops) and agent not in state.waiting:
                after = self.step(state._replace(at=put(state.at, agent, at + 1)), agent, ops[at])
                if after is not None:
                    yield after
        arrives = self.ledger.mistake != "a warp arrives before its copies have landed"
        for slot, part, tile in state.copies:
            landed = state._replace(copies=state.copies - {(slot, part, tile)})
            if not self.ledger.copiers and part == 0:
                landed = self.complete(landed, "tile full", slot, copies=-1)
            elif arrives:
                landed = self.complete(landed, "tile full", slot, arrivals=-1)
            yield self.write(landed, "tile", slot * self.ledger.parts + part, tile)

    def step(self, state: State, agent: int, op: Op) -> State | None:
        kind, name, slot, what = op
        if kind == "wait":
            return None if state.barriers[BARRIERS.index(name)][slot][0] == what else state
        if kind == "arrive":
            return self.complete(state, name, slot, arrivals=-1)
        if kind in {"expect_tx", "copy"}:
            state = state._replace(copies=state.copies | {(slot, min(agent, self.ledger.parts - 1), what)})
            return state if kind == "copy" else self.complete(state, name, slot, arrivals=-1, copies=1)
        if kind == "write":
            return self.write(state, name, slot, what)
        if kind == "sync":
            waiting = state.waiting | {agent}
            return state._replace(waiting=frozenset() if len(waiting) == self.ledger.warps else waiting)
        parts = self.ledger.parts if name == "tile" else 1
        held = state.cells[ARRAYS.index(name)]
        for one in held if slot == ALL else held[slot * parts : (slot + 1) * parts]:
            assert one == what, f"agent {agent} found {one} in {name}, expected {what}"
        return state

    def complete(self, state: State, name: str, slot: int, *, arrivals: int = 0, copies: int = 0) -> State:
        i = BARRIERS.index(name)
        phase, pending, expected = state.barriers[i][slot]
        after = (phase, pending + arrivals, expected + copies)
        if after[1:] == (0, 0):
            after = (phase ^ 1, self.arrivals[i], 0)
        return state._replace(barriers=put(state.barriers, i, put(state.barriers[i], slot, after)))

    def write(self, state: State, name: str, slot: int, what: object) -> State:
        i = ARRAYS.index(name)
        return state._replace(cells=put(state.cells, i, put(state.cells[i], slot, what)))


def search(ledger: Ledger) -> int:
    machine = Machine(ledger)
    todo, seen = [machine.start()], {machine.start()}
    while todo:
        state = todo.pop()
        stuck = not machine.finished(state)
        for after in machine.successors(state):
            stuck = False
            if after not in seen:
                seen.add(after)
                todo.append(after)
        assert not stuck, f"deadlock at {state.at}"
    return len(seen)
