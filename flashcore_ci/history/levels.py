"""Sittings of equal code, with what each is compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

WITH_PARENT = 0.75
"""The variance of a round against anchor and parent over that against the anchor: 1 + 1/4 + 1/4 processes in place of 2."""
Rounds = list[tuple[float, int]]
"""Mean and number of rounds, by sitting."""


@dataclass(slots=True)
class Level:
    """Sittings of equal code. ``sittings``: mean, rounds and sum of squares of each that counts. ``steps``: against anchor and parent."""

    code: str
    first: int
    last: int
    link: float
    sittings: list[tuple[float, int, float]] = field(default_factory=list)
    steps: Rounds = field(default_factory=list)
    seen: int = 0
    rounds: int = 0
    mean: float = 0.0
    decided: bool = False

    def add(self, mean: float, rounds: int, squares: float) -> None:
        """Add a sitting that counts."""
        self.mean = (self.mean * self.rounds + mean * rounds) / (self.rounds + rounds)
        self.rounds += rounds
        self.sittings.append((mean, rounds, squares))

    def squares(self) -> tuple[float, int]:
        """Sum of squares of all rounds about their mean, and its degrees of freedom."""
        between = math.fsum(rounds * (mean - self.mean) ** 2 for mean, rounds, _ in self.sittings)
        return between + math.fsum(squares for *_, squares in self.sittings), self.rounds - 1

    def compared(self, window: int) -> tuple[Rounds, float, float]:
        """Return the sittings, the share of a round's variance that theirs is, and the share of the mean before that they exceed."""
        if window == 1 and len(self.steps) == len(self.sittings):
            return self.steps, WITH_PARENT, 0.5
        return [(mean, rounds) for mean, rounds, _ in self.sittings], 1.0, 1.0
