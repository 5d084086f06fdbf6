"""The barrier ledger of decode (kernel/README.md), searched state by state for deadlocks and for reads of what is not there.

One producer, consumer warps, and the copy engine, which may deliver what was announced at any later moment. The producer tells
of a piece, in a ring of its own, once the piece's first copies are on their way. A warp takes the piece, gives its slot back at
once, reads the tiles and gives theirs back, and merges: statistics, then sums (of 8 rows or twice 8), then, of a unit that is
cut, the parts in the workspace, which warp 0 counts. The warps meet between one's writing and another's reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import pytest

T = TypeVar("T")
Barrier = tuple[int, int, int]  # the phase that is not complete yet, arrivals it lacks, copies it lacks

END = "end"
ALL = -1  # cells of an array
BARRIERS = ("piece full", "piece empty", "tile full", "tile empty")
ARRAYS = ("piece", "tile", "statistics", "sums", "parts", "arrived")


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What is under test, and the one thing that is wrong with it, which must be found."""

    pieces: tuple[int, ...] = (2, 1)  # tiles of each
    slots: int = 2  # of the ring of tiles
    told: int = 2  # slots of the ring of pieces
    warps: int = 2
    halves: int = 1  # passes over eight rows
    cut: bool = False  # units are in pieces
    mistake: str = ""

    def arrivals(self, barrier: str) -> int:
        if self.mistake == f"one arrival frees a slot: {barrier}":
            return 1
        if self.mistake == f"an arrival nobody makes: {barrier}":
            return self.warps + 1
        return self.warps if barrier.endswith("empty") else 1


class Op(NamedTuple):
    """One step: wait, arrive, announce, write, check or meet; at a barrier's or an array's slot; with a parity, value or name."""

    kind: str
    name: str = ""
    slot: int = 0
    what: object = None


def producer(ledger: Ledger) -> list[Op]:
    ops: list[Op] = []
    sent = 0
    for piece, tiles in enumerate(ledger.pieces):
        sends = [send(ledger, sent + tile, (piece, tile)) for tile in range(tiles)]
        sent += tiles
        sends.insert(tiles if ledger.mistake == "told when all its tiles are sent" else 1, tell(ledger, piece, piece))
        ops += [op for one in sends for op in one]
    if ledger.mistake == "a tile of a told piece is never sent":
        del ops[-2:]
    return ops if ledger.mistake == "no end is told" else ops + tell(ledger, len(ledger.pieces), END)


def send(ledger: Ledger, number: int, tile: object) -> list[Op]:
    slot, parity = number % ledger.slots, number // ledger.slots % 2
    wrong = ledger.mistake == "the producer waits for the wrong parity: tile"
    return [Op("wait", "tile empty", slot, parity if wrong else 1 - parity), Op("announce", "tile full", slot, tile)]


def tell(ledger: Ledger, number: int, piece: object) -> list[Op]:
    slot, parity = number % ledger.told, number // ledger.told % 2
    wrong = ledger.mistake == "the producer waits for the wrong parity: piece"
    wait = Op("wait", "piece empty", slot, parity if wrong else 1 - parity)
    write, full = Op("write", "piece", slot, piece), Op("arrive", "piece full", slot)
    if ledger.mistake == "a piece is told before its slot is empty":
        return [write, wait, full]
    return [wait, full, write] if ledger.mistake == "a piece is announced before it is written" else [wait, write, full]


def consumer(ledger: Ledger, warp: int) -> list[Op]:
    ops: list[Op] = []
    read = 0
    for piece, tiles in enumerate(ledger.pieces):
        ops += take(ledger, "piece", ledger.told, piece, piece)
        for tile in range(tiles):
            ops += take(ledger, "tile", ledger.slots, read, (piece, tile))
            read += 1
        ops += merge(ledger, warp, piece)
    return ops + take(ledger, "piece", ledger.told, len(ledger.pieces), END)


def take(ledger: Ledger, ring: str, slots: int, number: int, what: object) -> list[Op]:
    slot, parity = number % slots, number // slots % 2
    ops = [Op("wait", f"{ring} full", slot, parity), Op("check", ring, slot, what), Op("arrive", f"{ring} empty", slot)]
    if ledger.mistake == f"given back before it was read: {ring}":
        ops[1:] = ops[:0:-1]
    return ops


def merge(ledger: Ledger, warp: int, piece: int) -> list[Op]:
    """Every meeting is named after the mistake that it would be to leave it out."""
    ops = [Op("write", "statistics", warp, piece), Op("meet", "weights before all statistics are there")]
    for half in range(ledger.halves):
        ops += [
            Op("check", "statistics", ALL, piece),
            Op("write", "sums", warp, (piece, half)),
            Op("meet", "added up before all sums are there"),
            Op("check", "sums", ALL, (piece, half)),
        ]
        # Behind the last half nobody has to: the next piece's statistics are met before its sums are written.
        ops += [Op("meet", "sums are overwritten while they are read")] if half + 1 < ledger.halves else []
    if ledger.cut:
        ops += [Op("write", "parts", warp, piece), Op("meet", "counted before all of the piece is in the workspace")]
        ops += [Op("check", "parts", ALL, piece), Op("write", "arrived", 0, piece)] if warp == 0 else []
        ops += [Op("meet", "asked who is last before it is counted"), Op("check", "arrived", 0, piece)]
    return [op for op in ops if not (op.kind == "meet" and op.name == ledger.mistake)]


class State(NamedTuple):
    at: tuple[int, ...]  # of every agent
    waiting: frozenset[int]  # for the others, to meet
    barriers: tuple[tuple[Barrier, ...], ...]
    cells: tuple[tuple[object, ...], ...]
    copies: frozenset[tuple[int, object]]  # on their way: slot and tile


def put(items: tuple[T, ...], i: int, item: T) -> tuple[T, ...]:
    return (*items[:i], item, *items[i + 1 :])


class Machine:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.programs = [producer(ledger), *(consumer(ledger, warp) for warp in range(ledger.warps))]
        self.arrivals = [ledger.arrivals(barrier) for barrier in BARRIERS]

    def start(self) -> State:
        told, slots, warps = self.ledger.told, self.ledger.slots, self.ledger.warps
        barriers = tuple(((0, n, 0),) * size for n, size in zip(self.arrivals, (told, told, slots, slots), strict=True))
        cells = tuple((None,) * size for size in (told, slots, warps, warps, warps, 1))
        return State((0,) * (1 + warps), frozenset(), barriers, cells, frozenset())

    def finished(self, state: State) -> bool:
        return all(at == len(ops) for at, ops in zip(state.at, self.programs, strict=True)) and not state.copies

    def successors(self, state: State) -> Iterator[State]:
        for agent, (at, ops) in enumerate(zip(state.at, self.programs, strict=True)):
            if at < len(ops) and agent not in state.waiting:
                after = self.step(state._replace(at=put(state.at, agent, at + 1)), agent, ops[at])
                if after is not None:
                    yield after
        for slot, tile in state.copies:
            landed = self.complete(state, "tile full", slot, copies=-1)._replace(copies=state.copies - {(slot, tile)})
            yield self.write(landed, "tile", slot, tile)

    def step(self, state: State, agent: int, op: Op) -> State | None:
        kind, name, slot, what = op
        if kind == "wait":
            return None if state.barriers[BARRIERS.index(name)][slot][0] == what else state
        if kind == "arrive":
            return self.complete(state, name, slot, arrivals=-1)
        if kind == "announce":
            state = state._replace(copies=state.copies | {(slot, what)})
            return self.complete(state, name, slot, arrivals=-1, copies=1)
        if kind == "write":
            return self.write(state, name, slot, what)
        if kind == "meet":
            waiting = state.waiting | {agent}
            return state._replace(waiting=frozenset() if len(waiting) == self.ledger.warps else waiting)
        held = state.cells[ARRAYS.index(name)]
        for one in held if slot == ALL else held[slot : slot + 1]:
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


@pytest.mark.parametrize(
    "ledger",
    [
        Ledger(pieces=(1,)),
        Ledger(pieces=(3, 1)),
        Ledger(pieces=(1, 1, 1), told=1),
        Ledger(pieces=(1, 1, 1, 1), slots=3),
        Ledger(pieces=(2, 2), slots=3),
        Ledger(pieces=(1, 2), slots=1, told=1),
        Ledger(pieces=(1, 1), halves=2),
        Ledger(pieces=(1, 1), halves=2, cut=True),
        Ledger(pieces=(1, 2, 1), warps=3, halves=2, cut=True),
        Ledger(pieces=(1, 1, 7, 1, 1, 1), slots=5, told=4),
    ],
    ids=repr,
)
def test_no_interleaving_deadlocks_or_reads_what_is_not_there(ledger: Ledger) -> None:
    assert search(ledger) > 1


@pytest.mark.parametrize(
    ("ledger", "message"),
    [
        (Ledger(pieces=(4,), mistake="one arrival frees a slot: tile empty"), "in tile|deadlock"),
        (Ledger(pieces=(3,), mistake="an arrival nobody makes: tile empty"), "deadlock"),
        (Ledger(pieces=(3,), mistake="the producer waits for the wrong parity: tile"), "deadlock"),
        (Ledger(pieces=(4,), mistake="given back before it was read: tile"), "in tile"),
        (Ledger(pieces=(1, 1, 1), mistake="one arrival frees a slot: piece empty"), "in piece|deadlock"),
        (Ledger(pieces=(1, 1), mistake="an arrival nobody makes: piece empty"), "deadlock"),
        (Ledger(pieces=(1, 1), mistake="the producer waits for the wrong parity: piece"), "deadlock"),
        (Ledger(pieces=(1, 1, 1), mistake="given back before it was read: piece"), "in piece"),
        (Ledger(pieces=(1, 1, 1), mistake="a piece is told before its slot is empty"), "in piece"),
        (Ledger(pieces=(1,), mistake="a piece is announced before it is written"), "in piece"),
        (Ledger(pieces=(3,), mistake="told when all its tiles are sent"), "deadlock"),
        (Ledger(pieces=(1, 2), mistake="a tile of a told piece is never sent"), "deadlock"),
        (Ledger(pieces=(1,), mistake="no end is told"), "deadlock"),
        (Ledger(pieces=(1, 1), mistake="weights before all statistics are there"), "in statistics"),
        (Ledger(pieces=(1, 1), mistake="added up before all sums are there"), "in sums"),
        (Ledger(pieces=(1,), halves=2, mistake="sums are overwritten while they are read"), "in sums"),
        (Ledger(pieces=(1,), cut=True, mistake="counted before all of the piece is in the workspace"), "in parts"),
        (Ledger(pieces=(1,), cut=True, mistake="asked who is last before it is counted"), "in arrived"),
    ],
    ids=lambda value: value.mistake if isinstance(value, Ledger) else value,
)  # fmt: skip
def test_a_wrong_ledger_is_found(ledger: Ledger, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        search(ledger)
