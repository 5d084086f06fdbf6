"""The barrier ledger of kernel/README.md, searched state by state for deadlocks and for tiles that are overwritten too early.

One producer, consumer warpgroups (each as one agent: its warps do the same things) and the copy engine, which may deliver
what was announced at any later moment. Every interleaving of their steps is visited.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

Op = tuple[str, str, int, object]  # kind, ring, slot, what: see Machine.step
State = tuple[object, ...]
END = "end"
SITS_OUT = -1


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The counts and phases that are under test; a wrong one must be found."""

    consumers: int = 2
    q_stages: int = 2
    kv_stages: int = 2
    tiles: tuple[int, ...] = (2, 1, 1)  # key tiles of each query tile, in the order of this CTA
    parts: tuple[tuple[int, ...], ...] = ()  # per tile, what each consumer does: steps that it skips, or SITS_OUT; default: none
    empty_arrivals: int | None = None  # on an empty barrier; default: one of every consumer
    producer_parity: int = 1  # that the producer's first round waits for
    release_before_use: bool = False  # of values, by a consumer that does not wait for its product
    lost_turn: bool = False  # a consumer that skips a step skips its turn too
    hold_query: bool = False  # begin the tile after next before the output of this one has left

    def skipped(self, tile: int, consumer: int) -> int:
        return self.parts[tile][consumer] if self.parts else 0

    @property
    def stages(self) -> dict[str, int]:
        return {"q": self.q_stages, "k": self.kv_stages, "v": self.kv_stages}


class Ring:
    """Where one role stands: slot and parity, as in sm90/pipeline.cuh."""

    def __init__(self, slots: int) -> None:
        self.slots, self.slot, self.parity = slots, 0, 0

    def advance(self) -> None:
        self.slot += 1
        if self.slot == self.slots:
            self.slot, self.parity = 0, self.parity ^ 1


def producer(ledger: Ledger) -> list[Op]:
    ops: list[Op] = []
    rings = {name: Ring(slots) for name, slots in ledger.stages.items()}

    def load(name: str, what: object) -> None:
        ring = rings[name]
        ops.append(("wait_empty", name, ring.slot, ring.parity ^ ledger.producer_parity))
        ops.append(("announce", name, ring.slot, what))
        ring.advance()

    for tile, steps in enumerate(ledger.tiles):
        load("q", ("q", tile))
        for step in reversed(range(steps)):
            load("k", ("k", tile, step))
            if step + 1 < steps:
                load("v", ("v", tile, step + 1))
        if steps:
            load("v", ("v", tile, 0))
    load("q", END)
    return ops


class Consumer:
    """The operations of attention/consumer.cuh, unrolled for the ledger's tiles."""

    def __init__(self, ledger: Ledger, index: int) -> None:
        self.ledger, self.index = ledger, index
        self.ops: list[Op] = []
        self.rings = {name: Ring(slots) for name, slots in ledger.stages.items()}
        if index == ledger.consumers - 1:
            self.pass_turn()
        tile = 0
        while tile < len(ledger.tiles):
            self.wait("q", ("q", tile))
            tile = self.part_in(tile)(tile)
        self.wait("q", END)
        if index == 0:
            self.take_turn()

    def part_in(self, tile: int) -> Callable[[int], int]:
        if not self.ledger.tiles[tile]:
            return self.store_zeros
        return self.sit_out if self.ledger.skipped(tile, self.index) == SITS_OUT else self.attend

    def take_turn(self) -> None:
        self.ops.append(("sync", "turn", self.index, None))

    def pass_turn(self) -> None:
        self.ops.append(("arrive", "turn", (self.index + 1) % self.ledger.consumers, None))

    def wait(self, name: str, what: object) -> int:
        ring = self.rings[name]
        self.ops.append(("wait_full", name, ring.slot, ring.parity))
        self.ops.append(("check", name, ring.slot, what))
        return ring.slot

    def release(self, name: str, what: object) -> None:
        ring = self.rings[name]
        if not (name == "v" and self.ledger.release_before_use):
            self.ops.append(("check", name, ring.slot, what))  # still there when the product has read it
        self.ops.append(("release", name, ring.slot, None))
        if name == "v" and self.ledger.release_before_use:
            self.ops.append(("check", name, ring.slot, what))
        ring.advance()

    def begin(self, tile: int) -> int:
        slot = self.wait("q", ("q", tile))
        self.rings["q"].advance()
        return slot

    def store(self, tile: int, slot: int) -> None:
        self.ops.append(("check", "q", slot, ("q", tile)))
        self.ops.append(("release", "q", slot, None))

    def sit_out(self, tile: int) -> int:
        for step in reversed(range(self.ledger.tiles[tile])):
            self.skip("k", ("k", tile, step))
            self.empty_turn()
            self.skip("v", ("v", tile, step))
        self.ops.append(("release", "q", self.rings["q"].slot, None))
        self.rings["q"].advance()
        return tile + 1

    def skip(self, name: str, what: object) -> None:
        self.wait(name, what)
        self.release(name, what)

    def empty_turn(self) -> None:
        self.take_turn()
        self.pass_turn()

    def skip_keys(self, tile: int) -> int:
        """The first step that this consumer needs."""
        steps, skipped = self.ledger.tiles[tile], self.ledger.skipped(tile, self.index)
        for step in range(steps - 1, steps - 1 - skipped, -1):
            self.skip("k", ("k", tile, step))
        return steps - 1 - skipped

    def skip_values(self, tile: int, first: int) -> None:
        for step in range(self.ledger.tiles[tile] - 1, first, -1):
            if not self.ledger.lost_turn:
                self.empty_turn()
            self.skip("v", ("v", tile, step))

    def store_zeros(self, tile: int) -> int:
        self.store(tile, self.begin(tile))
        return tile + 1

    def attend(self, tile: int) -> int:
        slot, step = self.begin(tile), self.skip_keys(tile)
        self.wait("k", ("k", tile, step))
        self.release("k", ("k", tile, step))
        self.skip_values(tile, step)
        while True:
            while step:
                self.product(tile, step, tile, step - 1)
                self.release("v", ("v", tile, step))
                step -= 1
            last = tile + 1 == len(self.ledger.tiles)
            self.wait("q", END if last else ("q", tile + 1))
            if last or self.part_in(tile + 1) != self.attend:
                break
            next_slot, first = self.begin(tile + 1), self.skip_keys(tile + 1)
            self.product(tile, 0, tile + 1, first)
            self.release("v", ("v", tile, 0))
            if self.ledger.hold_query and tile + 2 < len(self.ledger.tiles):
                self.wait("q", ("q", tile + 2))
            self.store(tile, slot)
            self.skip_values(tile + 1, first)
            tile, slot, step = tile + 1, next_slot, first
        self.take_turn()
        self.wait("v", ("v", tile, 0))
        self.pass_turn()
        self.release("v", ("v", tile, 0))
        self.store(tile, slot)
        return tile + 1

    def product(self, tile: int, step: int, next_tile: int, next_step: int) -> None:
        """Scores of the next step, then the output of this one, within one turn."""
        self.wait("k", ("k", next_tile, next_step))
        self.take_turn()
        self.wait("v", ("v", tile, step))
        self.pass_turn()
        self.release("k", ("k", next_tile, next_step))


class Machine:
    """Barriers, slots and copies in flight, as plain tuples so that states can be told apart."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.programs = [producer(ledger), *(Consumer(ledger, i).ops for i in range(ledger.consumers))]
        self.places = [(name, slot) for name, slots in ledger.stages.items() for slot in range(slots)]
        self.full_at = {place: i for i, place in enumerate(self.places)}
        self.arrivals = ledger.consumers if ledger.empty_arrivals is None else ledger.empty_arrivals

    def start(self) -> State:
        agents = len(self.programs)
        full = ((0, 1, 0),) * len(self.places)  # phase, arrivals to come, copies to come
        empty = ((0, self.arrivals),) * len(self.places)
        turns = ((0, 0),) * self.ledger.consumers  # generation, arrived
        return ((0,) * agents, (None,) * agents, full, empty, turns, (None,) * len(self.places), ())

    def successors(self, state: State) -> list[State]:
        found = [self.step(state, agent) for agent in range(len(self.programs))]
        copies = state[6]
        assert isinstance(copies, tuple)
        found += [self.deliver(state, i) for i in range(len(copies))]
        return [after for after in found if after is not None]

    def finished(self, state: State) -> bool:
        counters = state[0]
        assert isinstance(counters, tuple)
        return all(counter == len(program) for counter, program in zip(counters, self.programs, strict=True)) and not state[6]

    def deliver(self, state: State, i: int) -> State:
        counters, asleep, full, empty, turns, slots, copies = (list(part) for part in state)  # type: ignore[call-overload]
        place, what = copies.pop(i)
        slots[place] = what
        phase, pending, transfers = full[place]
        full[place] = _complete(phase, pending, transfers - 1)
        return tuple(map(tuple, (counters, asleep, full, empty, turns, slots, copies)))

    def step(self, state: State, agent: int) -> State | None:
        counters, asleep, full, empty, turns, slots, copies = (list(part) for part in state)  # type: ignore[call-overload]
        if counters[agent] == len(self.programs[agent]):
            return None
        kind, name, slot, what = self.programs[agent][counters[agent]]
        place = self.full_at.get((name, slot), -1)
        counters[agent] += 1
        if kind in {"wait_empty", "wait_full"}:
            phase = (empty if kind == "wait_empty" else full)[place][0]
            if phase == what:  # the phase of this parity has not completed yet
                return None
        elif kind == "announce":
            phase, pending, transfers = full[place]
            if what == END:
                slots[place] = END
                full[place] = _complete(phase, pending - 1, transfers)
            else:
                copies.append((place, what))
                copies.sort(key=repr)
                full[place] = (phase, pending - 1, transfers + 1)
        elif kind == "check":
            assert slots[place] == what, f"agent {agent} found {slots[place]} in {name}[{slot}], expected {what}"
        elif kind == "release":
            phase, pending = empty[place]
            empty[place] = (phase ^ 1, self.arrivals) if pending == 1 else (phase, pending - 1)
        elif not _turn(kind, agent, slot, counters, asleep, turns):
            return None
        return tuple(map(tuple, (counters, asleep, full, empty, turns, slots, copies)))


def _turn(kind: str, agent: int, slot: int, counters: list[int], asleep: list[int | None], turns: list[tuple[int, int]]) -> bool:
    """A named barrier of two sides; whoever syncs first sleeps on that operation until the other side has arrived."""
    generation, arrived = turns[slot]
    if asleep[agent] is not None:
        if generation == asleep[agent]:
            return False
        asleep[agent] = None
        return True
    turns[slot] = ((generation + 1) % 4, 0) if arrived == 1 else (generation, 1)
    if kind == "sync" and arrived == 0:
        asleep[agent] = generation
        counters[agent] -= 1
    return True


def _complete(phase: int, pending: int, transfers: int) -> tuple[int, int, int]:
    return (phase ^ 1, 1, 0) if pending == 0 and transfers == 0 else (phase, pending, transfers)


def search(ledger: Ledger) -> int:
    """Visit every reachable state; fails on a deadlock or on a slot that does not hold what its reader expects."""
    machine = Machine(ledger)
    todo, seen = [machine.start()], {machine.start()}
    while todo:
        state = todo.pop()
        after = machine.successors(state)
        assert after or machine.finished(state), f"deadlock at {state[0]}"
        for following in after:
            if following not in seen:
                seen.add(following)
                todo.append(following)
    return len(seen)


@pytest.mark.parametrize(
    "ledger",
    [
        Ledger(tiles=(1,)),
        Ledger(tiles=(3, 1)),
        Ledger(tiles=(1, 1, 1, 1)),
        Ledger(tiles=(0, 0, 0)),
        Ledger(tiles=(1, 0, 0, 2)),
        Ledger(tiles=(2, 2), kv_stages=3),
        Ledger(tiles=(1, 1), consumers=3),
        Ledger(tiles=(2, 2), parts=((1, 0), (1, 0))),
        Ledger(tiles=(2, 1, 2), parts=((1, 0), (0, SITS_OUT), (0, 0))),
        Ledger(tiles=(1, 2), parts=((0, SITS_OUT), (0, SITS_OUT)), kv_stages=3),
    ],
    ids=lambda ledger: f"{ledger.consumers} consumers, {ledger.kv_stages} stages, tiles {ledger.tiles} {ledger.parts}",
)
def test_no_interleaving_deadlocks_or_overwrites(ledger: Ledger) -> None:
    assert search(ledger) > 1


@pytest.mark.parametrize(
    ("ledger", "message"),
    [
        (Ledger(tiles=(4,), empty_arrivals=1), "found|deadlock"),
        (Ledger(tiles=(2,), empty_arrivals=3, kv_stages=1), "deadlock"),
        (Ledger(tiles=(2,), producer_parity=0), "deadlock"),
        (Ledger(tiles=(4,), release_before_use=True), "found"),
        (Ledger(tiles=(1, 1, 1), hold_query=True), "deadlock"),
        (Ledger(tiles=(1, 1), q_stages=1), "deadlock"),
        (Ledger(tiles=(2, 2), parts=((1, 0), (1, 0)), lost_turn=True), "found|deadlock"),
    ],
    ids=["one arrival frees a slot", "an arrival nobody makes", "producer waits for the wrong parity", "released before use",
         "a query is awaited before the one before it has left", "one query stage", "a step is skipped with its turn"],
)  # fmt: skip
def test_a_wrong_ledger_is_found(ledger: Ledger, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        search(ledger)
