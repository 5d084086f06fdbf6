"""The barrier ledger of decode (kernel/README.md), searched state by state for deadlocks and for reads of what is not there.

One producer, consumer warps, and the copy engine, which may deliver what was announced at any later moment. A warp reads a
slot, gives it back, and at the end of a piece writes its sums, meets the others, reads theirs and meets them again.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

Op = tuple[str, int, object]  # kind, slot or warp, what
State = tuple[object, ...]
END = "end"


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """What is under test; a wrong count, order or phase must be found."""

    pieces: tuple[int, ...] = (2, 1)  # tiles of each piece
    slots: int = 2
    warps: int = 2
    empty_arrivals: int | None = None  # default: one of every warp
    producer_parity: int = 1
    early_release: bool = False  # a slot is given back before it was read
    meets_before_reading: bool = True
    meets_after_reading: bool = True
    early_step: bool = False  # what comes next is told before its slot is empty

    @property
    def steps(self) -> list[tuple[int, int]]:
        return [(piece, tile) for piece, tiles in enumerate(self.pieces) for tile in range(tiles)]


def producer(ledger: Ledger) -> list[Op]:
    ops: list[Op] = []
    for number, what in enumerate([*ledger.steps, END]):
        slot, parity = number % ledger.slots, number // ledger.slots % 2
        wait: Op = ("wait_empty", slot, parity ^ ledger.producer_parity)
        step: Op = ("step", slot, what)
        ops += [step, wait] if ledger.early_step else [wait, step]
        ops.append(("announce", slot, what))
    return ops


def consumer(ledger: Ledger, warp: int) -> list[Op]:
    ops: list[Op] = []
    for number, what in enumerate([*ledger.steps, END]):
        slot, parity = number % ledger.slots, number // ledger.slots % 2
        ops += [("wait_full", slot, parity), ("check_step", slot, what)]
        begins = what == END or what in {(piece, 0) for piece in range(1, len(ledger.pieces))}
        if begins:
            ops += merge(ledger, warp, int(ledger.steps[number - 1][0]))
        if what == END:
            break
        read: Op = ("check_tile", slot, what)
        give: Op = ("release", slot, None)
        ops += [give, read] if ledger.early_release else [read, give]
    return ops


def merge(ledger: Ledger, warp: int, piece: int) -> list[Op]:
    meet: list[Op] = [("meet", 0, None)]
    ops: list[Op] = [("sums", warp, piece)]
    ops += meet if ledger.meets_before_reading else []
    ops += [("check_sums", other, piece) for other in range(ledger.warps)]
    return ops + (meet if ledger.meets_after_reading else [])


class Machine:
    def __init__(self, ledger: Ledger) -> None:
        self.programs = [producer(ledger), *(consumer(ledger, warp) for warp in range(ledger.warps))]
        self.ledger = ledger
        self.arrivals = ledger.warps if ledger.empty_arrivals is None else ledger.empty_arrivals

    def start(self) -> State:
        slots, warps = self.ledger.slots, self.ledger.warps
        asleep = (None,) * (1 + warps)
        return ((0,) * (1 + warps), asleep, ((0, 1, 0),) * slots, ((0, self.arrivals),) * slots,
                (0, 0), (None,) * slots, (None,) * slots, (None,) * warps, ())  # fmt: skip

    def finished(self, state: State) -> bool:
        return all(at == len(ops) for at, ops in zip(state[0], self.programs, strict=True)) and not state[8]  # type: ignore[call-overload]

    def successors(self, state: State) -> list[State]:
        found = [self.step(state, agent) for agent in range(len(self.programs))]
        found += [self.deliver(state, i) for i in range(len(state[8]))]  # type: ignore[arg-type]
        return [after for after in found if after is not None]

    def deliver(self, state: State, i: int) -> State:
        parts = [list(part) for part in state]  # type: ignore[call-overload]
        slot, what = parts[8].pop(i)
        parts[6][slot] = what
        phase, pending, copies = parts[2][slot]
        parts[2][slot] = _complete(phase, pending, copies - 1)
        return tuple(map(tuple, parts))

    def step(self, state: State, agent: int) -> State | None:
        parts = [list(part) for part in state]  # type: ignore[call-overload]
        at, asleep, full, empty, met, steps, tiles, sums, copies = parts
        if at[agent] == len(self.programs[agent]):
            return None
        kind, place, what = self.programs[agent][at[agent]]
        at[agent] += 1
        if kind in {"wait_empty", "wait_full"}:
            if (empty if kind == "wait_empty" else full)[place][0] == what:
                return None
        elif kind == "announce":
            phase, pending, expected = full[place]
            if what == END:
                full[place] = _complete(phase, pending - 1, expected)
            else:
                copies.append((place, what))
                copies.sort(key=repr)
                full[place] = (phase, pending - 1, expected + 1)
        elif kind in {"step", "sums"}:
            (steps if kind == "step" else sums)[place] = what
        elif kind == "release":
            phase, pending = empty[place]
            empty[place] = (phase ^ 1, self.arrivals) if pending == 1 else (phase, pending - 1)
        elif kind == "meet":
            if not self.meet(agent, at, asleep, met):
                return None
        else:
            held = {"check_step": steps, "check_tile": tiles, "check_sums": sums}[kind][place]
            assert held == what, f"agent {agent} found {held}, expected {what} ({kind})"
        return tuple(map(tuple, parts))

    def meet(self, agent: int, at: list[int], asleep: list[int | None], met: list[int]) -> bool:
        """A named barrier of all consumer warps: generation and arrivals; whoever comes first sleeps on the operation."""
        if asleep[agent] is not None:
            if met[0] == asleep[agent]:
                return False
            asleep[agent] = None
            return True
        met[1] += 1
        if met[1] == self.ledger.warps:
            met[0], met[1] = (met[0] + 1) % 4, 0
        else:
            asleep[agent] = met[0]
            at[agent] -= 1
        return True


def _complete(phase: int, pending: int, copies: int) -> tuple[int, int, int]:
    return (phase ^ 1, 1, 0) if pending == 0 and copies == 0 else (phase, pending, copies)


def search(ledger: Ledger) -> int:
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
        Ledger(pieces=(1,)),
        Ledger(pieces=(3, 1)),
        Ledger(pieces=(1, 1, 1)),
        Ledger(pieces=(2, 2), slots=3),
        Ledger(pieces=(2, 1), warps=3),
        Ledger(pieces=(1, 2), slots=1),
    ],
    ids=repr,
)
def test_no_interleaving_deadlocks_or_reads_what_is_not_there(ledger: Ledger) -> None:
    assert search(ledger) > 1


@pytest.mark.parametrize(
    ("ledger", "message"),
    [
        (Ledger(pieces=(4,), empty_arrivals=1), "found|deadlock"),
        (Ledger(pieces=(3,), empty_arrivals=3), "deadlock"),
        (Ledger(pieces=(3,), producer_parity=0), "deadlock"),
        (Ledger(pieces=(4,), early_release=True), "check_tile"),
        (Ledger(pieces=(4,), early_step=True), "check_step"),
        (Ledger(pieces=(1, 1), meets_before_reading=False), "check_sums"),
        (Ledger(pieces=(1, 1), meets_after_reading=False), "check_sums"),
    ],
    ids=["one arrival frees a slot", "an arrival nobody makes", "producer waits for the wrong parity", "released before it was read",
         "told before its slot is empty", "sums are read before all are there", "sums are overwritten while they are read"],
)  # fmt: skip
def test_a_wrong_ledger_is_found(ledger: Ledger, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        search(ledger)
