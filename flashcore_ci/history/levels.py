"""Sittings of equal code, with what each is compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

SHARES = {False: (1.0, 1.0), True: (0.75, 0.5)}
"""Without and with the parent: the variance of a round over that against the anchor, and the part of the level before that is expected."""
FEWEST = 3  # rounds of a sitting of which one may be left out
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

    def compared(self, view: tuple[int, bool]) -> Rounds:
        """Return the sittings against the anchor, or with the parent: none if one has none."""
        if view[1]:
            return self.steps if len(self.steps) == len(self.sittings) else []
        return [(mean, rounds) for mean, rounds, _ in self.sittings]


def without(far: float | None, mean: float, variance: float, rounds: int) -> tuple[float, float] | None:
    """Return mean and variance without the farthest round, or None if it is unknown or too few remain."""
    if far is None or rounds < FEWEST:
        return None
    rest = rounds - 1
    squares = variance * rest - rounds / rest * (far - mean) ** 2
    return (rounds * mean - far) / rest, max(0.0, squares / (rest - 1))
