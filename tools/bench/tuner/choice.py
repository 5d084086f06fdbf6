"""Choose tiles from cycles: successive halving and the winner. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peerbench.samples import geometric_mean

FINALISTS = 4
EQUAL = 0.003  # medians of the same binary differ by up to this share in one run
MASKS = ("full", "causal")

Cycles = Mapping[str, Mapping[str, float]]
"""Megacycles by row, then by candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The winner of one head dimension and mask. ``gains`` are the hand-picked tile's cycles over its cycles by row."""

    head_dim: int
    mask: str
    hand: str
    winner: str
    gains: Mapping[str, float]

    @property
    def not_slower(self) -> int:
        """Rows on which it is at least as fast."""
        return sum(gain >= 1 - EQUAL for gain in self.gains.values())

    @property
    def faster(self) -> int:
        """Rows on which it is faster by more than the noise."""
        return sum(gain > 1 + EQUAL for gain in self.gains.values())


def rungs(entrants: int, rows: Sequence[str]) -> list[tuple[int, tuple[str, ...]]]:
    """Plan successive halving down to FINALISTS: the number of candidates and the rows of each rung.

    Only the last rung has every row, the others three of them.
    """
    if entrants < 1 or not rows:
        raise ValueError("successive halving needs a candidate and a row")
    few = tuple(dict.fromkeys((rows[0], rows[len(rows) // 2], rows[-1])))
    out = []
    while entrants > FINALISTS:
        out.append((entrants, few))
        entrants = max(FINALISTS, math.ceil(entrants / 2))
    return [*out, (entrants, tuple(rows))]


def megacycles(record: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the cycles of a rung's record."""
    rows = record["cycles"].items()
    return {row: {name: values["megacycles"] for name, values in row_cycles.items()} for row, row_cycles in rows}


def scores(cycles: Cycles) -> dict[str, float]:
    """Return each candidate's geometric mean of cycles by the least of the row, infinite if a row has no valid number."""
    valid = [{name: one for name, one in row.items() if math.isfinite(one) and one > 0} for row in cycles.values()]
    out = {}
    for name in {name for row_cycles in cycles.values() for name in row_cycles}:
        ratios = [row_cycles[name] / min(row_cycles.values()) for row_cycles in valid if name in row_cycles]
        out[name] = (geometric_mean(ratios) or math.inf) if len(ratios) == len(cycles) else math.inf
    return out


def survivors(cycles: Cycles, keep: int, always: Sequence[str] = ()) -> list[str]:
    """Return the ``keep`` best, best first, and those of ``always``."""
    ranked = sorted(scores(cycles).items(), key=lambda item: (item[1], item[0]))
    best = [name for name, score in ranked[:keep] if math.isfinite(score)]
    return best + [name for name in always if name not in best]


def choose(head_dim: int, mask: str, hand: str, finals: Cycles) -> Choice:
    """Choose the finalist with the fewest cycles, but only if the hand-picked tile is slower by more than the noise."""
    ranked = scores({row: row_cycles for row, row_cycles in finals.items() if hand in row_cycles})
    if hand not in ranked:
        raise ValueError(f"D={head_dim} {mask}: the hand-picked {hand} was not timed")
    best = min(ranked, key=lambda name: (ranked[name], name))
    winner = best if ranked[best] * (1 + EQUAL) < ranked[hand] else hand
    gains = {row: row_cycles[hand] / row_cycles[winner] for row, row_cycles in finals.items()}
    return Choice(head_dim=head_dim, mask=mask, hand=hand, winner=winner, gains=gains)


def split(finals: Cycles, single: str) -> tuple[str, int, str, float] | None:
    """Return the best pair of tiles by length: (short, its most keys, long, gain over ``single``).

    Rows are named ``B·H·S mask dtype``. None if no pair that was timed on its rows is better by more than the noise.
    """
    lengths = {row: int(row.split()[0].split("·")[2]) for row in finals}
    names = sorted({name for row_cycles in finals.values() for name in row_cycles})
    best = None
    for most_keys, short, long in itertools.product(sorted(set(lengths.values()))[:-1], names, names):
        tiles = {row: short if length <= most_keys else long for row, length in lengths.items()}
        if short == long or any(tiles[row] not in row_cycles for row, row_cycles in finals.items()):
            continue
        gain = geometric_mean([row_cycles[single] / row_cycles[tiles[row]] for row, row_cycles in finals.items()]) or 0.0
        if gain > (best[3] if best else 1 + EQUAL):
            best = (short, most_keys, long, gain)
    return best
