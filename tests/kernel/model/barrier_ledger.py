"""The barrier ledger of kernel/README.md as programs: the operations of the producer and of each consumer warpgroup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Op = tuple[str, str, int, object]  # kind, ring, slot, what: see Machine.step in unit/kernel/test_barriers.py
END = "end"
SITS_OUT = -1


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The counts and phases that are under test; a wrong one must be found."""

    consumers: int = 2
    q_stages: int = 1
    turns: bool = True
    query_in_registers: bool = False
    staged_output: bool = False
    scores_again: bool = False  # the keys of a step go back when its exponentials are known to hold, after its values
    kv_stages: int = 2
    tiles: tuple[int, ...] = (2, 1, 1)  # key tiles of each query tile, in the order of this CTA
    parts: tuple[tuple[int, ...], ...] = ()  # per tile, what each consumer does: steps that it skips, or SITS_OUT; default: none
    empty_arrivals: int | None = None  # on an empty barrier; default: one of every consumer
    producer_parity: int = 1  # that the producer's first round waits for
    release_before_use: bool = False  # of values, by a consumer that does not wait for its product
    lost_turn: bool = False  # a consumer that skips a step skips its turn too
    early_query: bool = False  # a query is given back before its last scores have been waited for
    late_query: bool = False  # a consumer that sits a tile out gives its query back only after its turns
    late_read: bool = False  # it reads what tile it is once more after it gave the query back
    early_write: bool = False  # what tile comes next is written before its slot is empty

    def skipped(self, tile: int, consumer: int) -> int:
        return self.parts[tile][consumer] if self.parts else 0

    @property
    def stages(self) -> dict[str, int]:
        queries = {f"q{consumer}": self.q_stages for consumer in range(self.consumers)}
        return {**queries, "k": self.kv_stages, "v": self.kv_stages}

    @property
    def places(self) -> list[tuple[str, int]]:
        """The slots of the rings, and beside each of a query what tile it is: t0 for q0."""
        slots = [(name, slot) for name, slots in self.stages.items() for slot in range(slots)]
        return slots + [("t" + name[1:], slot) for name, slot in slots if name.startswith("q")]


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

    def load_query(what: object) -> None:
        for consumer in range(ledger.consumers):
            load(f"q{consumer}", what)
            *_, wait, announce = ops
            write = ("write", f"t{consumer}", announce[2], what)
            ops[-2:] = [write, wait, announce] if ledger.early_write else [wait, write, announce]

    for tile, steps in enumerate(ledger.tiles):
        if steps:
            load("k", ("k", tile, steps - 1))
        load_query(("q", tile))
        for step in reversed(range(steps)):
            if step:
                load("k", ("k", tile, step - 1))
            load("v", ("v", tile, step))
    load_query(END)
    return ops


class Consumer:
    """The operations of attention/consumer.cuh, unrolled for the ledger's tiles."""

    def __init__(self, ledger: Ledger, index: int) -> None:
        self.ledger, self.index = ledger, index
        self.ops: list[Op] = []
        self.query = f"q{index}"
        self.rings = {name: Ring(slots) for name, slots in ledger.stages.items()}
        if index == ledger.consumers - 1:
            self.pass_turn()
        tile = 0
        while tile < len(ledger.tiles):
            self.arriving(tile)
            tile = self.part_in(tile)(tile)
        self.arriving(tile)
        if index == 0:
            self.take_turn()

    def part_in(self, tile: int) -> Callable[[int], int]:
        if not self.ledger.tiles[tile]:
            return self.store_zeros
        return self.sit_out if self.ledger.skipped(tile, self.index) == SITS_OUT else self.attend

    def take_turn(self) -> None:
        if self.ledger.turns:
            self.ops.append(("sync", "turn", self.index, None))

    def pass_turn(self) -> None:
        if self.ledger.turns:
            self.ops.append(("arrive", "turn", (self.index + 1) % self.ledger.consumers, None))

    def wait(self, name: str, what: object) -> int:
        ring = self.rings[name]
        self.ops.append(("wait_full", name, ring.slot, ring.parity))
        self.ops.append(("check", name, ring.slot, what))
        return ring.slot

    def arriving(self, tile: int) -> None:
        """Wait for what comes next, and read it: a tile or, after the last one, the end."""
        ring = self.rings[self.query]
        self.ops.append(("wait_full", self.query, ring.slot, ring.parity))
        self.read_tile(tile, ring.slot)

    def read_tile(self, tile: int, slot: int) -> None:
        self.ops.append(("check", f"t{self.index}", slot, ("q", tile) if tile < len(self.ledger.tiles) else END))

    def release(self, name: str, what: object) -> None:
        ring = self.rings[name]
        if not (name == "v" and self.ledger.release_before_use):
            self.ops.append(("check", name, ring.slot, what))  # still there when the product has read it
        self.ops.append(("release", name, ring.slot, None))
        if name == "v" and self.ledger.release_before_use:
            self.ops.append(("check", name, ring.slot, what))
        ring.advance()

    def begin(self, tile: int) -> int:
        """The first step that this consumer needs. That the query is there was waited for with its tile."""
        self.held = self.rings[self.query].slot
        self.ops.append(("check", self.query, self.held, ("q", tile)))
        self.rings[self.query].advance()
        if self.ledger.query_in_registers:
            self.release_query(tile, self.held)
        return self.skip_keys(tile)

    def release_query(self, tile: int, slot: int) -> None:
        self.ops.append(("check", self.query, slot, ("q", tile)))
        self.ops.append(("release", self.query, slot, None))

    def store(self, tile: int, slot: int) -> None:
        if self.ledger.staged_output:
            self.read_tile(tile, slot)
            self.release_query(tile, slot)

    def finish_scores(self, tile: int, step: int) -> None:
        frees_query = step == 0 and not self.ledger.query_in_registers and not self.ledger.staged_output
        if frees_query and self.ledger.early_query:
            self.ops.append(("release", self.query, self.held, None))
        self.release("k", ("k", tile, step))
        if frees_query and self.ledger.early_query:
            self.ops.append(("check", self.query, self.held, ("q", tile)))
        elif frees_query:
            self.release_query(tile, self.held)

    def sit_out(self, tile: int) -> int:
        slot = self.rings[self.query].slot
        self.rings[self.query].advance()
        if not self.ledger.late_query:
            self.release_query(tile, slot)
        if self.ledger.late_read:
            self.read_tile(tile, slot)
        for step in reversed(range(self.ledger.tiles[tile])):
            self.skip("k", ("k", tile, step))
            self.empty_turn()
            self.skip("v", ("v", tile, step))
        if self.ledger.late_query:
            self.release_query(tile, slot)
        return tile + 1

    def skip(self, name: str, what: object) -> None:
        self.wait(name, what)
        self.release(name, what)

    def empty_turn(self) -> None:
        self.take_turn()
        self.pass_turn()

    def skip_keys(self, tile: int) -> int:
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
        self.begin(tile)
        if not self.ledger.query_in_registers:
            self.release_query(tile, self.held)
        return tile + 1

    def attend(self, tile: int) -> int:
        step = self.begin(tile)
        self.wait("k", ("k", tile, step))
        self.finish_scores(tile, step)
        self.skip_values(tile, step)
        while True:
            while step:
                self.inner_step(tile, step)
                step -= 1
            last = tile + 1 == len(self.ledger.tiles)
            self.arriving(tile + 1)
            if last or self.part_in(tile + 1) != self.attend:
                break
            slot, first = self.held, self.begin(tile + 1)
            self.product(tile, 0, tile + 1, first)
            self.finish_scores(tile + 1, first)
            self.release("v", ("v", tile, 0))
            self.store(tile, slot)
            self.skip_values(tile + 1, first)
            tile, step = tile + 1, first
        self.take_turn()
        self.wait("v", ("v", tile, 0))
        self.pass_turn()
        self.release("v", ("v", tile, 0))
        self.store(tile, self.held)
        return tile + 1

    def inner_step(self, tile: int, step: int) -> None:
        self.product(tile, step, tile, step - 1)
        if not self.ledger.scores_again:
            self.finish_scores(tile, step - 1)
        self.release("v", ("v", tile, step))
        if self.ledger.scores_again:
            self.finish_scores(tile, step - 1)

    def product(self, tile: int, step: int, next_tile: int, next_step: int) -> None:
        """Scores of the next step, then the output of this one, within one turn."""
        self.wait("k", ("k", next_tile, next_step))
        self.take_turn()
        self.wait("v", ("v", tile, step))
        self.pass_turn()
