"""The order in which contenders run. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence


def rounds(names: Sequence[str], rng: random.Random) -> Iterator[list[str]]:
    """Yield endless rounds in random order, balanced after every square.

    In a Williams square (Australian Journal of Scientific Research 1949) each name has each position, and follows each other name,
    equally often. So a contender that leaves the GPU cool helps all others equally.
    """
    count = len(names)
    zigzag = [(index + 1) // 2 if index % 2 else count - index // 2 for index in range(count)]
    square = [[(place + shift) % count for place in zigzag] for shift in range(count)]
    if count % 2:
        square += [row[::-1] for row in square]
    while True:
        shuffled = rng.sample(list(names), count)
        for row in rng.sample(square, len(square)):
            yield [shuffled[place] for place in row]
