"""The order in which contenders take turns. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence


def rounds(names: Sequence[str], rng: random.Random) -> Iterator[list[str]]:
    """Rounds without end: random, and balanced after every square, so that few rounds are fair too.

    A square (Williams, Australian Journal of Scientific Research 1949) has as many rounds as names, twice as many if they are
    odd: in it everyone stands in every place equally often, and right behind everyone else equally often. A contender that
    leaves the GPU cool, or its clock high, so helps all others alike. Who is who in a square is drawn anew for each.
    """
    count = len(names)
    zigzag = [(index + 1) // 2 if index % 2 else count - index // 2 for index in range(count)]
    square = [[(place + shift) % count for place in zigzag] for shift in range(count)]
    if count % 2:
        square += [row[::-1] for row in square]
    while True:
        drawn = rng.sample(list(names), count)
        for row in rng.sample(square, len(square)):
            yield [drawn[place] for place in row]
