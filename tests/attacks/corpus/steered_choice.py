"""A candidate that steers how it is timed: it writes anything, and is fast, while the number of sets and the graph are chosen."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from attacking import Attack, AttackClass

from flashcore_ci.worker import isolated_timing
from flashcore_ci.worker.audits import OutputChangedError
from flashcore_ci.worker.clocks import Burst

HONEST_MS = 0.2
"""Too long for a CUDA graph."""


class Bursts:
    """Bursts of a candidate that works for these launches only. It cannot know which one is compared."""

    sizes = (4, 8, 16, 32, 64)

    def __init__(self, worked: set[int], fast: float, numbers: random.Random) -> None:
        self.worked, self.fast, self.numbers, self.is_right = worked, fast, numbers, True

    def run(self, candidate: Any, sets: int, launches: int) -> Burst:
        right = [number in self.worked for number in range(launches)]
        self.is_right = all(right) or self.numbers.choice(right)
        outside = 1.0 + sum(HONEST_MS if works else self.fast for works in right)
        return Burst(launches=launches, outside=outside, inside=outside - 1.0, delivery=2.0)

    def audit(self) -> None:
        if not self.is_right:
            raise OutputChangedError("a timed launch is off the reference")


def _attack(name: str, worked: set[int], fast: float = 0.001, seed: int = 0) -> Attack:
    def attempt(_: Path) -> bool:
        bursts = Bursts(worked, fast, random.Random(seed))
        try:
            _sets, graph = isolated_timing._choose(bursts, SimpleNamespace(ask=lambda *_, **__: {}), None)  # type: ignore[arg-type]
        except OutputChangedError:
            return False
        return graph

    return Attack(name=name, attempt=attempt)


def member(numbers: random.Random) -> Attack:
    """Do nothing in most launches, at some speed."""
    fast = numbers.uniform(0.0, 0.02)
    return _attack(f"nothing, in {fast:.4f} ms", set(), fast, numbers.randrange(1 << 30))


def mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe that a trial has the right outputs, as before."""
    monkeypatch.setattr(isolated_timing, "_audited", lambda bursts, *arguments: bursts.run(*arguments))


CLASS = AttackClass(
    name="wrong outputs while the timing is chosen",
    attacks=(
        _attack("nothing", set()),
        _attack("nothing, at once", set(), 0.0),
        _attack("nothing, nearly as long as a graph may have", set(), 0.045),
        _attack("the first launch only, which is timed alone", {0}),
    ),
    member=member,
    mutant=mutant,
)
