"""Search the barrier ledger of kernel/README.md for deadlocks and for tiles that are overwritten too early.

The agents are one producer (in pages three), consumer warpgroups (one agent each, because their warps do the same), and TMA. TMA may deliver
expected bytes at any later moment. The search visits every interleaving of their steps.
"""

from __future__ import annotations

import pytest
from barrier_ledger import END, OUT_OF_RANGE, Consumer, Ledger, paged_producers, producer

State = tuple[object, ...]


class Machine:
    """Barriers, slots and copies in flight, as plain tuples so that states can be compared."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        producers = paged_producers(ledger) if ledger.paged else [producer(ledger)]
        self.programs = [*producers, *(Consumer(ledger, i).ops for i in range(ledger.consumers))]
        self.places = ledger.places
        self.full_at = {place: i for i, place in enumerate(self.places)}
        rings = [name for name, _ in self.places if name in ledger.stages]  # a query's tile shares the barriers of the query
        self.arrivals = [ledger.empty_arrivals_of(name) for name in rings]  # on each empty barrier

    def start(self) -> State:
        agents = len(self.programs)
        full = ((0, 1, 0),) * len(self.arrivals)  # phase, arrivals to come, copies to come
        empty = tuple((0, arrivals) for arrivals in self.arrivals)
        barriers = ((0, 0),) * self.ledger.consumers  # generation, arrived
        return ((0,) * agents, (None,) * agents, full, empty, barriers, (None,) * len(self.places), ())

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
        counters, asleep, full, empty, barriers, slots, copies = (list(part) for part in state)  # type: ignore[call-overload]
        place, what = copies.pop(i)
        slots[place] = what
        phase, pending, transfers = full[place]
        full[place] = _complete(phase, pending, transfers - 1)
        return tuple(map(tuple, (counters, asleep, full, empty, barriers, slots, copies)))

    def step(self, state: State, agent: int) -> State | None:
        counters, asleep, full, empty, barriers, slots, copies = (list(part) for part in state)  # type: ignore[call-overload]
        if counters[agent] == len(self.programs[agent]):
            return None
        kind, name, slot, what = self.programs[agent][counters[agent]]
        place = self.full_at.get((name, slot), -1)
        counters[agent] += 1
        passes = True
        if kind in {"wait_empty", "wait_full"}:
            passes = (empty if kind == "wait_empty" else full)[place][0] != what  # the phase of this parity has completed
        elif kind == "expect_tx":
            _expect(full, copies, place, what)
        elif kind in {"send", "take", "give"}:
            passes = self.pass_on(kind, empty, full, slots, place, what)
        elif kind == "load":
            passes = self.load(empty, full, slots, copies, place, what)
        elif kind == "write":
            slots[place] = what
        elif kind == "check":
            assert slots[place] == what, f"agent {agent} found {slots[place]} in {name}[{slot}], expected {what}"
        elif kind == "release":
            self.release(empty, place)
        else:
            passes = _ping_pong(kind, agent, slot, counters, asleep, barriers)
        return tuple(map(tuple, (counters, asleep, full, empty, barriers, slots, copies))) if passes else None

    def release(self, empty: list[tuple[int, int]], place: int) -> None:
        phase, pending = empty[place]
        empty[place] = (phase ^ 1, self.arrivals[place]) if pending == 1 else (phase, pending - 1)

    def pass_on(
        self,
        kind: str,
        empty: list[tuple[int, int]],
        full: list[tuple[int, int, int]],
        slots: list[object],
        place: int,
        what: object,
    ) -> bool:
        """A tile of pages, from the warp of keys to the others. Each is one step, because a wait or a read disturbs no other agent."""
        if kind == "give":
            assert slots[place] == what, f"found {slots[place]} in a tile, expected {what}"
            self.release(empty, place)
            return True
        parity, tile = what  # type: ignore[misc]
        if (empty if kind == "send" else full)[place][0] == parity:
            return False
        if kind == "send":
            slots[place] = tile
            phase, pending, transfers = full[place]
            full[place] = _complete(phase, pending - 1, transfers)
        assert slots[place] == tile, f"found {slots[place]} in a tile, expected {tile}"
        return True

    def load(
        self,
        empty: list[tuple[int, int]],
        full: list[tuple[int, int, int]],
        slots: list[object],
        copies: list[object],
        place: int,
        load: object,
    ) -> bool:
        """Wait for a slot, write its tile and start a copy. One step, because no other agent fills this ring."""
        parity, what, tile = load  # type: ignore[misc]
        if empty[place][0] == parity:
            return False
        if tile is not None:
            slots[self.full_at[tile]] = what
        _expect(full, copies, place, what)
        return True


def _ping_pong(
    kind: str, agent: int, slot: int, counters: list[int], asleep: list[int | None], barriers: list[tuple[int, int]]
) -> bool:
    """A named barrier of two sides. An agent that syncs first sleeps until the other side has arrived."""
    generation, arrived = barriers[slot]
    if asleep[agent] is not None:
        if generation == asleep[agent]:
            return False
        asleep[agent] = None
        return True
    barriers[slot] = ((generation + 1) % 4, 0) if arrived == 1 else (generation, 1)
    if kind == "sync" and arrived == 0:
        asleep[agent] = generation
        counters[agent] -= 1
    return True


def _expect(full: list[tuple[int, int, int]], copies: list[object], place: int, what: object) -> None:
    """Arrive, and start a copy unless this is the end."""
    phase, pending, transfers = full[place]
    if what == END:
        full[place] = _complete(phase, pending - 1, transfers)
        return
    copies.append((place, what))
    copies.sort(key=repr)
    full[place] = (phase, pending - 1, transfers + 1)


def _complete(phase: int, pending: int, transfers: int) -> tuple[int, int, int]:
    return (phase ^ 1, 1, 0) if pending == 0 and transfers == 0 else (phase, pending, transfers)


def search(ledger: Ledger) -> int:
    """Visit every reachable state. Fail on a deadlock or on a slot that does not hold what its reader expects."""
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
        Ledger(tiles=(1, 2, 1), q_stages=2),
        Ledger(tiles=(1, 2, 0, 1), query_in_registers=True),
        Ledger(tiles=(2, 1), query_in_registers=True, ping_pong_barrier=False),
        Ledger(tiles=(3, 1), query_in_registers=True, ping_pong_barrier=False, recompute_qk=True),
        Ledger(
            tiles=(2, 3),
            masked=((0, 0), (1, 0)),
            query_in_registers=True,
            ping_pong_barrier=False,
            recompute_qk=True,
            kv_stages=3,
        ),
        Ledger(
            tiles=(1, 3), masked=((0, OUT_OF_RANGE), (1, 0)), query_in_registers=True, ping_pong_barrier=False, recompute_qk=True
        ),
        Ledger(tiles=(1, 2, 0, 1), q_stages=2, tma_store_epilogue=True),
        Ledger(tiles=(2, 2), masked=((1, 0), (1, 0))),
        Ledger(tiles=(2, 1, 2), masked=((1, 0), (0, OUT_OF_RANGE), (0, 0))),
        Ledger(tiles=(1, 2), masked=((0, OUT_OF_RANGE), (0, OUT_OF_RANGE)), kv_stages=3),
        Ledger(tiles=(1, 2), masked=((0, OUT_OF_RANGE), (1, 0))),
        Ledger(tiles=(1, 3, 1), masked=((0, OUT_OF_RANGE), (1, 0), (0, OUT_OF_RANGE))),
        Ledger(
            tiles=(1, 1, 2),
            masked=((0, OUT_OF_RANGE), (0, OUT_OF_RANGE), (1, 0)),
            q_stages=2,
            kv_stages=3,
            tma_store_epilogue=True,
        ),
        Ledger(paged=True, tiles=(2, 1)),
        pytest.param(
            Ledger(
                paged=True, tiles=(1, 2), query_in_registers=True, ping_pong_barrier=False, masked=((0, OUT_OF_RANGE), (1, 0))
            ),
            marks=pytest.mark.nightly,
        ),
        Ledger(paged=True, tiles=(1, 2), masked=((0, OUT_OF_RANGE), (1, 0))),
    ],
    ids=lambda ledger: (
        f"{'paged, ' * ledger.paged}{ledger.consumers} consumers, {ledger.q_stages} + {ledger.kv_stages} stages, tiles {ledger.tiles} "
        f"{ledger.masked}{' registers' if ledger.query_in_registers else ''}"
    ),
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
        (Ledger(tiles=(2, 1, 1), early_query=True), "found"),
        (Ledger(tiles=(1, 1), tma_store_epilogue=True), "deadlock"),
        (Ledger(tiles=(2, 2), masked=((1, 0), (1, 0)), missing_barrier=True), "found|deadlock"),
        (Ledger(tiles=(1, 2), masked=((0, OUT_OF_RANGE), (1, 0)), late_query=True), "deadlock"),
        (Ledger(tiles=(1, 2), masked=((0, OUT_OF_RANGE), (1, 0)), late_read=True), "found"),
        (Ledger(tiles=(1, 2), masked=((0, OUT_OF_RANGE), (1, 0)), early_write=True), "found"),
        (Ledger(paged=True, tiles=(1, 0, 1, 1), tile_arrivals=1), "found|deadlock"),
        (Ledger(paged=True, tiles=(1, 1), tile_arrivals=3), "deadlock"),
        (Ledger(paged=True, tiles=(1,), producer_parity=0), "deadlock"),
        (Ledger(paged=True, tiles=(1,), early_send=True), "found"),
        (Ledger(paged=True, tiles=(1, 0, 1), early_give="v"), "found"),
        (Ledger(paged=True, tiles=(1, 0, 1), early_give="q"), "found"),
        (Ledger(paged=True, tiles=(2,), empty_arrivals=3, kv_stages=1), "deadlock"),
    ],
    ids=["one arrival frees a slot", "an arrival is missing", "producer waits for the wrong parity", "released before use",
         "a query is released before its QK has finished", "a TMA store with one query slot", "a ping-pong barrier is skipped",
         "an out-of-range warpgroup releases its query late", "a tile is read after its slot was released",
         "a tile is written before its slot is empty", "paged, one reader frees a tile",
         "paged, an arrival of a reader too many", "paged, keys wait for the wrong parity", "paged, a tile is sent before it is written",
         "paged, values release a tile early", "paged, queries release a tile early", "paged, an arrival is missing"],
)  # fmt: skip
def test_a_wrong_ledger_is_found(ledger: Ledger, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        search(ledger)
