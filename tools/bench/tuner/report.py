"""Write docs/tuner.md and its pictures from the timings of a race. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from peerbench import plot
from peerbench.columns import cells
from peerbench.samples import geometric_mean

from tuner import choice

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


def rungs_of(records: Sequence[Mapping[str, Any]]) -> dict[tuple[int, str], list[Mapping[str, Any]]]:
    """Return the rungs by head dimension and mask, full first."""
    groups: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for record in sorted(records, key=lambda record: (record["head_dim"], record["mask"] != "full", record["rung"])):
        groups.setdefault((record["head_dim"], record["mask"]), []).append(record)
    return groups


def choices(records: Sequence[Mapping[str, Any]]) -> list[choice.Choice]:
    """Return the choice of every head dimension and mask that raced."""
    finals = [(group, rungs[-1]) for group, rungs in rungs_of(records).items()]
    return [choice.choose(*group, last["hand"], choice.megacycles(last)) for group, last in finals]


def files(samples: Mapping[str, Any], in_use: Mapping[int, str]) -> dict[str, str]:
    """Return the page and its pictures by path. ``in_use`` names today's tile of each head dimension."""
    found, groups = choices(samples["records"]), rungs_of(samples["records"])
    text = TOP.format(
        kernel=samples.get("kernel") or "the kernel of that day",
        **{key: samples[key] for key in ("device", "date", "possible")},
        equal=100 * choice.EQUAL,
        total=sum(len(one.gains) for one in found),
        held=sum(one.held for one in found),
        better=sum(one.better for one in found),
    )
    for one in found:
        gain = f"{geometric_mean(list(one.gains.values())):.3f}"
        rows = (f"{one.held} of {len(one.gains)}", str(one.better), in_use.get(one.head_dim, "n/a"))
        text += cells((str(one.head_dim), one.mask, f"`{one.hand}`", f"`{one.chosen}`", gain, *rows)) + "\n"
    pictures, finals = {}, TOP_OF_FINALS
    for one in found:
        rungs = groups[one.head_dim, one.mask]
        title, name = f"\n## D={one.head_dim}, {one.mask}\n\n", f"tuner-d{one.head_dim}-{one.mask}.svg"
        pictures[f"docs/performance/{name}"] = _picture(one, rungs[0])
        text += f"{title}![Cycles of every candidate](performance/{name})\n{_two_tiles(one, rungs[-1])}"
        finals += title + _finals(one, rungs[-1])
    reasons = Counter(reason for _, reason in samples["rejected"]).most_common()
    rejected = "".join(f"- {count} x {reason}\n" for reason, count in reasons) or "None.\n"
    return {PAGE: f"{text}\n## Compiled and rejected\n\n{rejected}", FINALS: finals, **pictures}


def _picture(one: choice.Choice, first: Mapping[str, Any]) -> str:
    """Draw the first rung: every candidate on a few rows."""
    labels = {one.hand: " (by hand)", one.chosen: " (chosen)"} if one.hand != one.chosen else {one.hand: " (by hand, chosen)"}
    ranked = sorted((score, name) for name, score in choice.scores(choice.megacycles(first)).items())
    values = [(name + labels.get(name, ""), 100 * (score - 1)) for score, name in ranked]
    rows = ", ".join(row.split()[0] for row in first["cycles"])
    strong = frozenset(name + label for name, label in labels.items())
    return plot.bars(
        f"D={one.head_dim}, {one.mask}: first rung", f"% more cycles than the best of each row ({rows})", values, strong
    )


def _two_tiles(one: choice.Choice, last: Mapping[str, Any]) -> str:
    """Describe what a second tile for long sequences would bring, if anything."""
    tiles = choice.split(choice.megacycles(last), one.chosen)
    if tiles is None:
        return ""
    short, most_keys, long, gain = tiles
    return (
        f"\nTwo tiles would be {100 * (gain - 1):.1f} % faster than one: `{short}` up to {most_keys} keys, and `{long}` beyond.\n"
    )


def _finals(one: choice.Choice, last: Mapping[str, Any]) -> str:
    """List megacycles of every finalist on every row, the best in bold."""
    names = sorted({name for taken in last["cycles"].values() for name in taken})
    lines = [cells(("Mcycles", *(f"`{name}`" for name in names), "by hand / chosen")), "| --- " * (len(names) + 2) + "|"]
    for row, taken in choice.megacycles(last).items():
        best = min(taken.values())
        texts = {name: f"**{value:.4f}**" if value == best else f"{value:.4f}" for name, value in taken.items()}
        lines.append(cells((row, *(texts.get(name, "n/a") for name in names), f"{one.gains[row]:.3f}")))
    return "\n".join(lines) + "\n"
