"""Simulate six kinds of machines, most of which break the assumptions of a rule."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from rival_rules import RULES, ProcessSamples

from flashcore_ci.judge.stats.paired_estimate import Prior
from flashcore_ci.judge.stats.sequential_test import FINAL_CODES, INTERIM_LOOKS, Rounds, decide
from flashcore_ci.model.codes import FAILING, PASSING, Code

TRIALS = 1000
ROWS = 16
MARGIN = math.log1p(0.003)
RECORDED = Prior(variance=2e-6, df=20.0)
"""The prior for every kind: independent scatter of 0.1 % per process. For most kinds it is wrong."""

Machine = Callable[[random.Random, int], tuple[float, float]]
"""Returns log cycles and log clock of one process, given its number."""


def independent(source: random.Random, _: int) -> tuple[float, float]:
    """As recorded."""
    return source.gauss(0.0, 1e-3), source.gauss(0.0, 5e-3)


def drifting(source: random.Random, process: int) -> tuple[float, float]:
    """Each process 0.1 % slower than the one before: a machine that warms up."""
    return 1e-3 * process + source.gauss(0.0, 1e-3), source.gauss(0.0, 5e-3)


def drooping(source: random.Random, process: int) -> tuple[float, float]:
    """The clock falls by 6 % over a comparison, and wanders by 1.5 %."""
    return source.gauss(0.0, 1e-3), -0.06 * process / 24 + source.gauss(0.0, 1.5e-2)


def bimodal(source: random.Random, _: int) -> tuple[float, float]:
    """Every process is fast, or 2 % slow, by a coin."""
    return source.gauss(0.0, 2e-4) + 0.02 * source.randint(0, 1), source.gauss(0.0, 5e-3)


def heavy_tails(source: random.Random, _: int) -> tuple[float, float]:
    """One process in twenty scatters eight times as much."""
    return source.gauss(0.0, 1e-3) * (8 if source.random() < 0.05 else 1), source.gauss(0.0, 5e-3)  # noqa: PLR2004


def twice_as_noisy(source: random.Random, _: int) -> tuple[float, float]:
    """Today every process scatters twice as much as recorded."""
    return source.gauss(0.0, 2e-3), source.gauss(0.0, 1e-2)


KINDS: dict[str, Machine] = {
    "independent noise": independent,
    "drift": drifting,
    "clock droop": drooping,
    "two speeds": bimodal,
    "heavy tails": heavy_tails,
    "twice as noisy as recorded": twice_as_noisy,
}


def simulate(kind: str) -> dict[str, tuple[int, int | None, int, int]]:
    """Count, for each rule: identical code slower, undecided (ours only), +1 % slower, trials."""
    source = random.Random(kind)
    counts, rivals = [Counts(), Counts()], {name: [0, 0] for name in RULES}
    for _ in range(TRIALS):
        logs = simulate_rounds(source, KINDS[kind])
        for index, shift in enumerate((0.0, math.log(1.01))):
            cycles, ms = sides_of(logs, shift)
            counts[index].add(code_of(cycles, ms))
            base, head = (ProcessSamples(ms=ms[side], megacycles=cycles[side]) for side in (0, 1))
            for name, rule in RULES.items():
                rivals[name][index] += rule(base, head)
    results = {"**flashcore-ci**": (counts[0].red, counts[0].undecided, counts[1].red, TRIALS)}
    return results | {name: (same, None, slower, TRIALS) for name, (same, slower) in rivals.items()}


class Counts:
    """Counts of codes."""

    def __init__(self) -> None:
        self.red = self.undecided = 0

    def add(self, code: Code) -> None:
        """Count one code."""
        self.red += code in FAILING
        self.undecided += code not in FAILING | PASSING


def simulate_rounds(source: random.Random, machine: Machine) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Simulate twelve rounds: (log cycles, log clock) per process of base and of head."""
    sides: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    for number in range(INTERIM_LOOKS[-1]):
        for turn, side in enumerate(source.sample((0, 1), 2)):
            sides[side].append(machine(source, 2 * number + turn))
    return sides


def sides_of(logs: tuple[list[tuple[float, float]], ...], shift: float) -> tuple[list[list[float]], list[list[float]]]:
    """Compute cycles and times of both sides. ``shift`` (log ratio) slows head."""
    shifted = [[(cycles + side * shift, clock) for cycles, clock in values] for side, values in enumerate(logs)]
    cycles = [[math.exp(log) for log, _ in values] for values in shifted]
    return cycles, [[math.exp(log - clock) for log, clock in values] for values in shifted]


def code_of(cycles: list[list[float]], ms: list[list[float]]) -> Code:
    """Apply our rule, look by look, until it stops."""
    code = Code.UNDECIDED
    for look in INTERIM_LOOKS:
        rounds = [Rounds(base=tuple(base[:look]), head=tuple(head[:look])) for base, head in (cycles, ms)]
        code = decide(rounds[0], rounds[1], margin=MARGIN, rows=ROWS, noise=(RECORDED, None)).code
        if code in FINAL_CODES:
            break
    return code
