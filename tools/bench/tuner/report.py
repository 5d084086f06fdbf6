"""What the tuner found, as docs/tuner.md and pictures. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from peerbench import plot

from tuner import choice, halving

PAGE = "docs/tuner.md"
FINALS = "docs/archive/tuner-finals.md"

TOP = """\
# What the tuner chose

This race ran on {kernel}. A choice holds for the kernel that raced, and the main loop has changed since.
The column "in use" is read from [variants.toml](../kernel/variants.toml), and [the tuning log](../kernel/TUNING.md) says why.

`python3 tools/bench/tune.py choose` writes this page from [the timings](performance/tuner.json). Do not edit it. {device}, {date}.

On **{held}** of {total} rows the tuner's choice is at least as fast as the hand-picked tile. On {better} rows it is faster. Less than
{equal:.1f} % apart counts as equal.

1. `tools/bench/tune.py` lists every configuration that the machine's limits allow ({possible} here).
2. It compiles the requested ones without a GPU. It rejects those that spill or that the compiler serialised.
3. The rest race on the GPU by successive halving, for each head dimension and mask. Candidates are interleaved in random order, with a cold
   L2, and compared in cycles. The tile in use takes part to the end.
4. A winner must be faster by more than {equal:.1f} % over all rows.

[The archive](archive/tuner-finals.md) has the cycles of every finalist on every row.

| D | mask | picked by hand | chosen in this race | speedup, geometric mean | rows at least as fast | rows faster | in use |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""

TOP_OF_FINALS = """\
# The finals of the tuner's race

Written by `python3 tools/bench/tune.py choose` with [tuner.md](../tuner.md). Do not edit it. The best of each row is bold.
"""


def choices(records: Sequence[Mapping[str, Any]]) -> list[choice.Choice]:
    """The choice of every head dimension and mask that raced."""
    out = []
    for head_dim, mask in sorted(
        {(record["head_dim"], record["mask"]) for record in records}, key=lambda key: (key[0], key[1] != "full")
    ):
        last = _rungs(records, head_dim, mask)[-1]
        out.append(choice.choose(head_dim, mask, last["hand"], _megacycles(last)))
    return out


def files(samples: Mapping[str, Any], in_use: Mapping[int, str]) -> dict[str, str]:
    """The page and its pictures by path. ``in_use`` names today's tile of each head dimension."""
    found = choices(samples["records"])
    held, better = sum(one.held for one in found), sum(one.better for one in found)
    total = sum(len(one.gains) for one in found)
    text = TOP.format(
        device=samples["device"],
        date=samples["date"],
        kernel=samples.get("kernel") or "the kernel of that day",
        possible=samples["possible"],
        equal=100 * choice.EQUAL,
        total=total,
        held=held,
        better=better,
    )
    for one in found:
        mean = halving.geometric_mean(list(one.gains.values()))
        today = in_use.get(one.head_dim, "n/a")
        text += f"| {one.head_dim} | {one.mask} | `{one.hand}` | `{one.chosen}` | {mean:.3f} | {one.held} of {len(one.gains)} | {one.better} | {today} |\n"
    pictures, finals = {}, TOP_OF_FINALS
    for one in found:
        rungs = _rungs(samples["records"], one.head_dim, one.mask)
        path = f"docs/performance/tuner-d{one.head_dim}-{one.mask}.svg"
        pictures[path] = _picture(one, rungs[0])
        text += f"\n## D={one.head_dim}, {one.mask}\n\n![Cycles of every candidate](performance/{path.rsplit('/', 1)[1]})\n{_two_tiles(one, rungs[-1])}"
        finals += f"\n## D={one.head_dim}, {one.mask}\n\n{_finals(one, rungs[-1])}"
    text += _rejected(samples)
    return {PAGE: text, FINALS: finals, **pictures}


def _rungs(records: Sequence[Mapping[str, Any]], head_dim: int, mask: str) -> list[Mapping[str, Any]]:
    return sorted((one for one in records if (one["head_dim"], one["mask"]) == (head_dim, mask)), key=lambda one: one["rung"])


def _megacycles(record: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    return {row: {name: values["megacycles"] for name, values in taken.items()} for row, taken in record["cycles"].items()}


def _picture(one: choice.Choice, first: Mapping[str, Any]) -> str:
    """The first rung: everyone, on a few rows."""
    scores = halving.scores(_megacycles(first))
    ranked = sorted(((name, 100 * (score - 1)) for name, score in scores.items()), key=lambda item: (item[1], item[0]))
    labels = {one.hand: " (by hand)", one.chosen: " (chosen)"} if one.hand != one.chosen else {one.hand: " (by hand, chosen)"}
    named = [(name + labels.get(name, ""), value) for name, value in ranked]
    strong = frozenset(name + label for name, label in labels.items())
    rows = ", ".join(row.split()[0] for row in first["cycles"])
    return plot.bars(
        f"D={one.head_dim}, {one.mask}: first rung", f"% more cycles than the best of each row ({rows})", named, strong
    )


def _two_tiles(one: choice.Choice, last: Mapping[str, Any]) -> str:
    """What a second tile for long sequences would bring; empty when it brings nothing."""
    two = choice.split(_megacycles(last), one.chosen)
    if not two:
        return ""
    return (
        f"\nTwo tiles would be {100 * (two.gain - 1):.1f} % faster than one: `{two.short}` up to {two.most_keys} keys, and "
        f"`{two.long}` beyond.\n"
    )


def _finals(one: choice.Choice, last: Mapping[str, Any]) -> str:
    """The final: megacycles of every finalist on every row, the best in bold."""
    names = sorted({name for taken in last["cycles"].values() for name in taken})
    lines = [f"| Mcycles | {' | '.join(f'`{name}`' for name in names)} | by hand / chosen |", "| --- " * (len(names) + 2) + "|"]
    for row, taken in _megacycles(last).items():
        best = min(taken.values())
        cells = [
            ("**{:.4f}**" if taken[name] == best else "{:.4f}").format(taken[name]) if name in taken else "n/a" for name in names
        ]
        lines.append(f"| {row} | {' | '.join(cells)} | {one.gains[row]:.3f} |")
    return "\n".join(lines) + "\n"


def _rejected(samples: Mapping[str, Any]) -> str:
    """Candidates that did not race, by reason."""
    reasons = Counter(reason for _, reason in samples["rejected"])
    lines = [f"- {count} x {reason}" for reason, count in reasons.most_common()]
    return "\n## Compiled and rejected\n\n" + "\n".join(lines or ["None."]) + "\n"
