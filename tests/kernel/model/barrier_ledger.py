"""Model the barrier ledger of kernel/README.md: the operations of the producer and of each consumer warpgroup."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Op = tuple[str, str, int, object]  # kind, ring, slot, what: see Machine.step in unit/kernel/test_barriers.py
END = "end"
OUT_OF_RANGE = -1


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The counts and phases under test. The search must find a wrong one."""

    consumers: int = 2
    q_stages: int = 1
    ping_pong_barrier: bool = True
    query_in_registers: bool = False
    tma_store_epilogue: bool = False
    recompute_qk: bool = False  # keys are released after the speculation is verified, after the values
    kv_stages: int = 2
    tiles: tuple[int, ...] = (2, 1, 1)  # KV blocks of each query tile, in the order of this CTA
    masked: tuple[tuple[int, ...], ...] = ()  # per tile: KV blocks that each consumer skips, or OUT_OF_RANGE
    empty_arrivals: int | None = None  # on an empty barrier, default one per consumer
    producer_parity: int = 1  # of the producer's first waits
    release_before_use: bool = False  # a consumer releases values without waiting for PV
    missing_barrier: bool = False  # a consumer that skips a KV block skips its ping-pong barrier too
    early_query: bool = False  # a query is released before its last QK has finished
    late_query: bool = False  # an out-of-range consumer releases its query only after its barriers
    late_read: bool = False  # it reads the tile once more after it released the query
    early_write: bool = False  # the next tile is written before its slot is empty
    paged: bool = False  # a producer warp each for keys, values and queries
    tile_arrivals: int = 2  # on an empty barrier of the tiles that the warp of keys sends
    early_send: bool = False  # the warp of keys arrives before it has written the tile
    early_give: str = ""  # this warp releases a tile before it has read it for the last time

    def fully_masked(self, tile: int, consumer: int) -> int:
        return self.masked[tile][consumer] if self.masked else 0

    @property
    def stages(self) -> dict[str, int]:
        queries = {f"q{consumer}": self.q_stages for consumer in range(self.consumers)}
        return {**queries, "k": self.kv_stages, "v": self.kv_stages, **({"p": 2} if self.paged else {})}

    def empty_arrivals_of(self, name: str) -> int:
        own = {"p": self.tile_arrivals, "k": self.empty_arrivals or self.consumers, "v": self.empty_arrivals or self.consumers}
        return own.get(name, 1)

    @property
    def places(self) -> list[tuple[str, int]]:
        """The slots of the rings, and next to each query slot the slot of its tile: t0 for q0."""
        slots = [(name, slot) for name, slots in self.stages.items() for slot in range(slots)]
        tiles = [("t" + name[1:], slot) for name, slot in slots if name.startswith("q")]
        return slots + tiles


class Ring:
    """The position of one role: slot and parity, as in sm90/pipeline.cuh."""

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
        ops.append(("expect_tx", name, ring.slot, what))
        ring.advance()

    def load_query(what: object) -> None:
        for consumer in range(ledger.consumers):
            load(f"q{consumer}", what)
            *_, wait, expect_tx = ops
            write = ("write", f"t{consumer}", expect_tx[2], what)
            ops[-2:] = [write, wait, expect_tx] if ledger.early_write else [wait, write, expect_tx]

    for tile, n_blocks in enumerate(ledger.tiles):
        if n_blocks:
            load("k", ("k", tile, n_blocks - 1))
        load_query(("q", tile))
        for n_block in reversed(range(n_blocks)):
            if n_block:
                load("k", ("k", tile, n_block - 1))
            load("v", ("v", tile, n_block))
    load_query(END)
    return ops


def paged_producers(ledger: Ledger) -> list[list[Op]]:
    """Return the operations of attention/paged_producer.cuh: the warps of keys, values and queries. The first sends tiles."""
    programs: dict[str, list[Op]] = {"k": [], "v": [], "q": []}
    rings = {name: Ring(slots) for name, slots in ledger.stages.items()}

    def load(ops: list[Op], name: str, what: object) -> None:
        ring = rings[name]
        tile_slot = (f"t{name[1:]}", ring.slot) if name.startswith("q") else None
        ops.append(("load", name, ring.slot, (ring.parity ^ ledger.producer_parity, what, tile_slot)))
        ring.advance()

    for tile in range(len(ledger.tiles) + 1):
        last, tiles = tile == len(ledger.tiles), rings["p"]
        programs["k"] += send_tile(ledger, tiles, tile)
        for name, ops in programs.items():
            early = name == ledger.early_give
            if name != "k":
                ops += [("take", "p", tiles.slot, (tiles.parity, tile)), *([("give", "p", tiles.slot, tile)] if early else [])]
            for n_block in reversed(range(0 if last or name == "q" else ledger.tiles[tile])):
                load(ops, name, (name, tile, n_block))
            for consumer in range(ledger.consumers if name == "q" else 0):
                load(ops, f"q{consumer}", END if last else ("q", tile))
            if name != "k" and not last:  # the last read
                ops.append(("check" if early else "give", "p", tiles.slot, tile))
        tiles.advance()
    return list(programs.values())


def send_tile(ledger: Ledger, ring: Ring, tile: int) -> list[Op]:
    """Return how the warp of keys sends a tile to the others: in one step, unless it arrives too early."""
    parity = ring.parity ^ ledger.producer_parity
    if ledger.early_send:
        return [("wait_empty", "p", ring.slot, parity), ("expect_tx", "p", ring.slot, END), ("write", "p", ring.slot, tile)]
    return [("send", "p", ring.slot, (parity, tile))]


class Consumer:
    """The operations of attention/consumer.cuh, unrolled for the ledger's tiles."""

    def __init__(self, ledger: Ledger, index: int) -> None:
        self.ledger, self.index = ledger, index
        self.ops: list[Op] = []
        self.query = f"q{index}"
        self.rings = {name: Ring(slots) for name, slots in ledger.stages.items()}
        if index == ledger.consumers - 1:
            self.barrier_arrive()
        tile = 0
        while tile < len(ledger.tiles):
            self.wait_next_tile(tile)
            tile = self.work_kind(tile)(tile)
        self.wait_next_tile(tile)
        if index == 0:
            self.barrier_sync()

    def work_kind(self, tile: int) -> Callable[[int], int]:
        if not self.ledger.tiles[tile]:
            return self.store_zeros
        return self.skip_out_of_range_tile if self.ledger.fully_masked(tile, self.index) == OUT_OF_RANGE else self.attend

    def barrier_sync(self) -> None:
        if self.ledger.ping_pong_barrier:
            self.ops.append(("sync", "ping_pong", self.index, None))

    def barrier_arrive(self) -> None:
        if self.ledger.ping_pong_barrier:
            self.ops.append(("arrive", "ping_pong", (self.index + 1) % self.ledger.consumers, None))

    def wait(self, name: str, what: object) -> int:
        ring = self.rings[name]
        self.ops.append(("wait_full", name, ring.slot, ring.parity))
        self.ops.append(("check", name, ring.slot, what))
        return ring.slot

    def wait_next_tile(self, tile: int) -> None:
        """Wait for the next tile, or the end, and read it."""
        ring = self.rings[self.query]
        self.ops.append(("wait_full", self.query, ring.slot, ring.parity))
        self.read_tile(tile, ring.slot)

    def read_tile(self, tile: int, slot: int) -> None:
        self.ops.append(("check", f"t{self.index}", slot, ("q", tile) if tile < len(self.ledger.tiles) else END))

    def release(self, name: str, what: object) -> None:
        ring = self.rings[name]
        if not (name == "v" and self.ledger.release_before_use):
            self.ops.append(("check", name, ring.slot, what))  # still there when the mma has read it
        self.ops.append(("release", name, ring.slot, None))
        if name == "v" and self.ledger.release_before_use:
            self.ops.append(("check", name, ring.slot, what))
        ring.advance()

    def begin(self, tile: int) -> int:
        """Return the first KV block that this consumer needs. Waiting for the tile covered the query."""
        self.held = self.rings[self.query].slot
        self.ops.append(("check", self.query, self.held, ("q", tile)))
        self.rings[self.query].advance()
        if self.ledger.query_in_registers:
            self.release_query(tile, self.held)
        return self.skip_masked_keys(tile)

    def release_query(self, tile: int, slot: int) -> None:
        self.ops.append(("check", self.query, slot, ("q", tile)))
        self.ops.append(("release", self.query, slot, None))

    def store(self, tile: int, slot: int) -> None:
        if self.ledger.tma_store_epilogue:
            self.read_tile(tile, slot)
            self.release_query(tile, slot)

    def finish_qk(self, tile: int, n_block: int) -> None:
        frees_query = n_block == 0 and not self.ledger.query_in_registers and not self.ledger.tma_store_epilogue
        if frees_query and self.ledger.early_query:
            self.ops.append(("release", self.query, self.held, None))
        self.release("k", ("k", tile, n_block))
        if frees_query and self.ledger.early_query:
            self.ops.append(("check", self.query, self.held, ("q", tile)))
        elif frees_query:
            self.release_query(tile, self.held)

    def skip_out_of_range_tile(self, tile: int) -> int:
        slot = self.rings[self.query].slot
        self.rings[self.query].advance()
        if not self.ledger.late_query:
            self.release_query(tile, slot)
        if self.ledger.late_read:
            self.read_tile(tile, slot)
        for n_block in reversed(range(self.ledger.tiles[tile])):
            self.skip("k", ("k", tile, n_block))
            self.empty_barrier()
            self.skip("v", ("v", tile, n_block))
        if self.ledger.late_query:
            self.release_query(tile, slot)
        return tile + 1

    def skip(self, name: str, what: object) -> None:
        self.wait(name, what)
        self.release(name, what)

    def empty_barrier(self) -> None:
        self.barrier_sync()
        self.barrier_arrive()

    def skip_masked_keys(self, tile: int) -> int:
        n_blocks, fully_masked = self.ledger.tiles[tile], self.ledger.fully_masked(tile, self.index)
        for n_block in range(n_blocks - 1, n_blocks - 1 - fully_masked, -1):
            self.skip("k", ("k", tile, n_block))
        return n_blocks - 1 - fully_masked

    def skip_masked_values(self, tile: int, first: int) -> None:
        for n_block in range(self.ledger.tiles[tile] - 1, first, -1):
            if not self.ledger.missing_barrier:
                self.empty_barrier()
            self.skip("v", ("v", tile, n_block))

    def store_zeros(self, tile: int) -> int:
        self.begin(tile)
        if not self.ledger.query_in_registers:
            self.release_query(tile, self.held)
        return tile + 1

    def attend(self, tile: int) -> int:
        n_block = self.begin(tile)
        self.wait("k", ("k", tile, n_block))
        self.finish_qk(tile, n_block)
        self.skip_masked_values(tile, n_block)
        while True:
            while n_block:
                self.inner_iteration(tile, n_block)
                n_block -= 1
            last = tile + 1 == len(self.ledger.tiles)
            self.wait_next_tile(tile + 1)
            if last or self.work_kind(tile + 1) != self.attend:
                break
            slot, first = self.held, self.begin(tile + 1)
            self.issue_qk_and_pv(tile, 0, tile + 1, first)
            self.finish_qk(tile + 1, first)
            self.release("v", ("v", tile, 0))
            self.store(tile, slot)
            self.skip_masked_values(tile + 1, first)
            tile, n_block = tile + 1, first
        self.barrier_sync()
        self.wait("v", ("v", tile, 0))
        self.barrier_arrive()
        self.release("v", ("v", tile, 0))
        self.store(tile, self.held)
        return tile + 1

    def inner_iteration(self, tile: int, n_block: int) -> None:
        self.issue_qk_and_pv(tile, n_block, tile, n_block - 1)
        if not self.ledger.recompute_qk:
            self.finish_qk(tile, n_block - 1)
        self.release("v", ("v", tile, n_block))
        if self.ledger.recompute_qk:
            self.finish_qk(tile, n_block - 1)

    def issue_qk_and_pv(self, tile: int, n_block: int, next_tile: int, next_n_block: int) -> None:
        """Issue QK of the next KV block, then PV of this one, between the ping-pong barriers."""
        self.wait("k", ("k", next_tile, next_n_block))
        self.barrier_sync()
        self.wait("v", ("v", tile, n_block))
        self.barrier_arrive()
