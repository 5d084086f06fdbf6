"""From cycles to a choice, and from a choice to kernel/variants.toml. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tuner.halving import Cycles, geometric_mean, scores
from tuner.space import Candidate

EQUAL = 0.003
"""Two configurations whose medians differ by less are equal: what the same binary differs by in such a run."""

MASKS = ("full", "causal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The winner of one head dimension and mask, beside the one picked by hand."""

    head_dim: int
    mask: str
    hand: str
    chosen: str
    gains: Mapping[str, float]
    """By row, how many times the cycles of the winner the hand-picked one took: above 1, the winner is faster."""

    @property
    def held(self) -> int:
        """Rows on which the winner beats or equals the hand-picked one."""
        return sum(gain >= 1 - EQUAL for gain in self.gains.values())

    @property
    def better(self) -> int:
        """Rows on which it is faster by more than the noise."""
        return sum(gain > 1 + EQUAL for gain in self.gains.values())


def choose(head_dim: int, mask: str, hand: str, finals: Cycles) -> Choice:
    """The finalist with the least cycles over all rows; the hand-picked one unless another is better by more than the noise."""
    ranked = scores({row: taken for row, taken in finals.items() if hand in taken})
    if hand not in ranked:
        raise ValueError(f"D={head_dim} {mask}: the hand-picked {hand} was not timed")
    best = min(ranked, key=lambda name: (ranked[name], name))
    chosen = best if ranked[best] * (1 + EQUAL) < ranked[hand] else hand
    gains = {row: taken[hand] / taken[chosen] for row, taken in finals.items()}
    return Choice(head_dim=head_dim, mask=mask, hand=hand, chosen=chosen, gains=gains)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Two tiles for one mask: ``short`` for problems of up to ``most_keys`` keys, ``long`` beyond."""

    short: str
    most_keys: int
    long: str
    gain: float
    """Geometric mean over rows of how many times the cycles of the best single tile were the single one's: above 1, two are faster."""


def split(finals: Cycles, single: str) -> Split | None:
    """The best pair of tiles by length of the rows; None unless it beats the single one by more than the noise.

    Rows are named ``B·H·S mask dtype``; a pair is only considered where both tiles were timed on every row that they would serve.
    """
    lengths = {row: int(row.split()[0].split("·")[2]) for row in finals}
    names = sorted({name for taken in finals.values() for name in taken})
    best: Split | None = None
    for most_keys, short, long in itertools.product(sorted(set(lengths.values()))[:-1], names, names):
        pick = {row: short if length <= most_keys else long for row, length in lengths.items()}
        if short == long or any(pick[row] not in taken for row, taken in finals.items()):
            continue
        gain = geometric_mean([taken[single] / taken[pick[row]] for row, taken in finals.items()])
        if gain > (best.gain if best else 1 + EQUAL):
            best = Split(short=short, most_keys=most_keys, long=long, gain=gain)
    return best


def written(text: str, tiles: Mapping[tuple[int, str], Candidate]) -> str:
    """kernel/variants.toml with these tiles by (head dimension, mask); everything else stays as it stands.

    Full and causal share a table while they agree; else the causal one gets a table of its own. Entries with another table
    (for bf16, or for short sequences) keep it.
    """
    for head_dim in sorted({head_dim for head_dim, _ in tiles}):
        full, causal = (tiles[head_dim, mask] for mask in MASKS)
        name = f"d{head_dim}"
        text = _without_table(text, f"{name}_causal")
        text = _set_fields(text, name, full)
        own = name if full == causal else f"{name}_causal"
        if own != name:
            start, end = _table_span(text, name)
            block = text[start:end].rstrip("\n") + "\n\n"
            text = text[:end] + block.replace(f"[attention.tiles.{name}]", f"[attention.tiles.{own}]") + text[end:]
            text = _set_fields(text, own, causal)
        pattern = rf'(symbol = "\w+_d{head_dim}_\w+_causal"\ntile = )"{name}(?:_causal)?"'
        text = re.sub(pattern, rf'\1"{own}"', text)
    return text


def _table_span(text: str, name: str) -> tuple[int, int]:
    found = re.search(rf"^\[attention\.tiles\.{name}\]\n", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"kernel/variants.toml has no [attention.tiles.{name}]")
    following = re.search(r"^\[", text[found.end() :], re.MULTILINE)
    return found.start(), found.end() + following.start() if following else len(text)


def _without_table(text: str, name: str) -> str:
    if f"[attention.tiles.{name}]" not in text:
        return text
    start, end = _table_span(text, name)
    return text[:start] + text[end:]


def _set_fields(text: str, name: str, candidate: Candidate) -> str:
    start, end = _table_span(text, name)
    block = text[start:end]
    for key, value in candidate.fields().items():
        written_value = str(value).lower() if isinstance(value, bool) else str(value)
        block, count = re.subn(rf"^{key} = .*$", f"{key} = {written_value}", block, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"[attention.tiles.{name}] must have one line {key} = ...")
    return text[:start] + block + text[end:]
