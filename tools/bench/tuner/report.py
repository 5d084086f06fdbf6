"""Write docs/tuner.md and its pictures from the timings of a race. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from peerbench import plot
from peerbench.columns import lines
from peerbench.samples import geometric_mean

from tuner import choice

PAGE = "docs/tuner.md"
FINALS = "docs/archive/tuner-finals.md"


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


def blocks(samples: Mapping[str, Any], in_use: Mapping[int, str]) -> dict[str, str]:
    """Write the generated blocks of the page. ``in_use`` names today's tile of each head dimension."""
    results, groups = choices(samples["records"]), rungs_of(samples["records"])
    not_slower, total = sum(result.not_slower for result in results), sum(len(result.gains) for result in results)
    kernel = samples.get("kernel") or "the kernel of that day"
    race = f"""\
On **{not_slower}** of {total} rows the tuner's choice is at least as fast as the hand-picked tile. On \
{sum(result.faster for result in results)} rows it is faster.
This race ran on {kernel}, on one {samples["device"]}, {samples["date"]}. It had {samples["possible"]} possible configurations."""
    titles = (
        "D",
        "mask",
        "picked by hand",
        "chosen in this race",
        "speedup, geometric mean",
        "rows at least as fast",
        "rows faster",
    )
    rows, sections = [], []
    for result in results:
        gain = f"{geometric_mean(list(result.gains.values())):.3f}"
        counts = (f"{result.not_slower} of {len(result.gains)}", str(result.faster), in_use.get(result.head_dim, "n/a"))
        rows.append((str(result.head_dim), result.mask, f"`{result.hand}`", f"`{result.winner}`", gain, *counts))
        sections += [f"\n## D={result.head_dim}, {result.mask}\n", f"![Cycles of every candidate](performance/{_file(result)})"]
        sections += _two_tiles(result, groups[result.head_dim, result.mask][-1])
    reasons = Counter(reason for _, reason in samples["rejected"]).most_common()
    rejected = [f"- {count} x {reason}" for reason, count in reasons] or ["None."]
    return {
        "race": race,
        "choices": "\n".join([lines((*titles, "in use"), rows), *sections, "\n## Compiled and rejected\n", *rejected]),
    }


def finals(samples: Mapping[str, Any]) -> str:
    """Write the generated block of the archive."""
    groups = rungs_of(samples["records"])
    return "\n".join(
        f"## D={result.head_dim}, {result.mask}\n\n{_finals(result, groups[result.head_dim, result.mask][-1])}"
        for result in choices(samples["records"])
    )


def pictures(samples: Mapping[str, Any]) -> dict[str, str]:
    """Draw the first rung of each race, by path."""
    groups = rungs_of(samples["records"])
    results = choices(samples["records"])
    return {f"docs/performance/{_file(result)}": _picture(result, groups[result.head_dim, result.mask][0]) for result in results}


def _file(result: choice.Choice) -> str:
    return f"tuner-d{result.head_dim}-{result.mask}.svg"


def _picture(result: choice.Choice, first: Mapping[str, Any]) -> str:
    """Draw the first rung: every candidate on a few rows."""
    same = result.hand == result.winner
    labels = {result.hand: " (by hand, chosen)"} if same else {result.hand: " (by hand)", result.winner: " (chosen)"}
    ranked = sorted((score, name) for name, score in choice.scores(choice.megacycles(first)).items())
    values = [(name + labels.get(name, ""), 100 * (score - 1)) for score, name in ranked]
    rows = ", ".join(row.split()[0] for row in first["cycles"])
    strong = frozenset(name + label for name, label in labels.items())
    return plot.bars(
        f"D={result.head_dim}, {result.mask}: first rung", f"% more cycles than the best of each row ({rows})", values, strong
    )


def _two_tiles(result: choice.Choice, last: Mapping[str, Any]) -> list[str]:
    """Describe what a second tile for long sequences would bring, if anything."""
    tiles = choice.split(choice.megacycles(last), result.winner)
    if tiles is None:
        return []
    short, most_keys, long, gain = tiles
    return [
        f"\nTwo tiles would be {100 * (gain - 1):.1f} % faster than one: `{short}` up to {most_keys} keys, and `{long}` beyond."
    ]


def _finals(result: choice.Choice, last: Mapping[str, Any]) -> str:
    """List megacycles of every finalist on every row, the best in bold."""
    names = sorted({name for row_cycles in last["cycles"].values() for name in row_cycles})
    rows = []
    for row, row_cycles in choice.megacycles(last).items():
        best = min(row_cycles.values())
        texts = {name: f"**{value:.4f}**" if value == best else f"{value:.4f}" for name, value in row_cycles.items()}
        rows.append((row, *(texts.get(name, "n/a") for name in names), f"{result.gains[row]:.3f}"))
    return lines(("Mcycles", *(f"`{name}`" for name in names), "by hand / chosen"), rows) + "\n"
