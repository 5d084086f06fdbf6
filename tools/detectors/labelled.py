"""Write a labelled history of GPU kernels as CSV: series of 400 commits, with the exact truth of every point.

    python tools/detectors/labelled.py OUT.csv [SITTING ...]

Points are log(head / anchor) of 5 rounds. ``measured``: every round is two medians of processes that ran, each used once, and the truth
is the work that was planted in them. ``drawn``: rounds are drawn from these medians, and the truth was added. A SITTING is a folder that
``sitting.py`` wrote or its ``.tar.xz``, or ``docs/performance/kernel-versions.json.xz``, or ``process-medians.json.xz`` there, which has many
short ones.
From rows of fewer than 10 medians nothing is drawn. Without a SITTING, only the noise of 2026-11-21 is used. Equal arguments give equal bytes.
"""

from __future__ import annotations

import csv
import itertools
import json
import lzma
import math
import random
import statistics
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMITS, ROUNDS = 400, 5
DISTURBED, SHOCK = 0.02, (0.005, 0.05)
STEPS = ((60, 0.003), (130, -0.003), (190, 0.005), (260, -0.005), (310, 0.01), (360, 0.03))
"""Commits, and how much slower (log ratio) they make the kernel."""
CREEP = range(200, 210)
MIXED = frozenset({"392e166", "8165a3a", "2bf3d53"})
"""Versions of prefill of which a process ran any: they shared a table of kernels."""
Pair = tuple[float, float]


@dataclass(frozen=True)
class Row:
    """A kernel of one recording. ``pairs`` have logs of head and anchor, ``planted`` more of them by level (%)."""

    name: str
    origin: str
    values: tuple[float, ...]
    planted: dict[float, tuple[Pair, ...]]


def recorded() -> Iterator[Row]:
    noise = json.loads(lzma.decompress((ROOT / "docs/performance/noise-2026-11-21.json.xz").read_bytes()))
    for each in noise["workloads"]:
        key = "ms" if each["roof"] == "memory" else "megacycles"
        planted = {
            level["percent"]: tuple((math.log(head), math.log(base)) for head, base in zip(level["head"][key], level["base"][key], strict=True))
            for level in each["planted"]
        }  # fmt: skip
        yield Row(each["workload"], "gates/noise", tuple(map(math.log, each["same"][key])), planted)


def sitting(folder: Path) -> Iterator[Row]:
    """Read all GPUs of a sitting. A level is paired with the unchanged kernel of the next process. A file has versions of kernels."""
    if folder.name.endswith(".json.xz"):
        data = json.loads(lzma.decompress(folder.read_bytes()))
        for one in data.get("sittings", [data]):
            rows = [each["rows"] for each in one["processes"]]
            for name, versions in sorted(rows[0].items()):
                key = "ms" if "stream" in name or "decode" in name else "megacycles"
                is_mixed = "versions" in data and name.startswith("prefill")
                for version in (each for each in versions if not (is_mixed and each[:7] in MIXED)):
                    values = tuple(math.log(each[name][version][key]) for each in rows if version in each.get(name, {}))
                    yield Row(f"{name} {version[:7]}", one["sitting"]["at"], values, {})
        return
    if folder.name.endswith(".tar.xz"):
        with tempfile.TemporaryDirectory() as unpacked, tarfile.open(folder) as archive:
            archive.extractall(unpacked, filter="data")
            yield from sitting(Path(unpacked) / "sitting")
        return
    at = json.loads((folder / "sitting.json").read_text(encoding="utf-8"))["at"]
    for gpu in sorted(folder.glob("gpu-*")):
        files = [json.loads(file.read_text(encoding="utf-8")) for file in gpu.glob("process-*.json")]
        rows = [each["rows"] for each in sorted(files, key=lambda each: each["began"])]
        names = sorted({name.split("+")[0] for each in rows for name in each})
        for name in names:
            key = "ms" if "stream" in name or "decode" in name else "megacycles"
            levels = sorted({float(found.split("+")[1][:-1]) for each in rows for found in each if found.startswith(f"{name}+")})
            if levels and not was_planted(gpu / f"pilot-{name}.json"):
                continue
            base = f"{name}+0%" if levels else name
            same = [math.log(each[base][key]) for each in rows if base in each]
            planted = {
                level: tuple((math.log(one[f"{name}+{level:g}%"][key]), math.log(two[base][key]))
                             for one, two in itertools.pairwise(rows) if f"{name}+{level:g}%" in one and base in two)
                for level in levels if level
            }  # fmt: skip
            yield Row(name, f"{at} {gpu.name}", tuple(same), planted)


def was_planted(pilot: Path) -> bool:
    """Whether the extra work made the kernel slower at all."""
    costs = json.loads(pilot.read_text(encoding="utf-8"))["costs"]
    return min(costs[1], costs[3]) > 1.005 * max(costs[0], costs[2])


def measured(row: Row) -> Iterator[tuple[list[Pair], float, str]]:
    """Yield points of medians that ran, each median of the unchanged kernel used once."""
    count = min(2 * ROUNDS, len(row.values) // 2 * 2)
    for start in range(0, len(row.values) - count + 1, count):
        part = row.values[start : start + count]
        yield list(zip(part[::2], part[1::2], strict=True)), 0.0, "unchanged"
    for level, pairs in sorted(row.planted.items()):
        for start in range(0, len(pairs) - ROUNDS + 1, ROUNDS):
            yield list(pairs[start : start + ROUNDS]), math.log1p(level / 100.0), f"planted {level:g} %"


def truth(kind: str, commit: int) -> tuple[float, str]:
    """Return the log ratio that is true at a commit, and what happened there."""
    if kind == "creep":
        return 1e-3 * sum(each <= commit for each in CREEP), "creep" if commit in CREEP else "unchanged"
    if kind == "steps":
        at = dict(STEPS)
        return sum(
            size for when, size in STEPS if when <= commit
        ), f"step {100 * at[commit]:+.1f} %" if commit in at else "unchanged"
    return 0.0, "unchanged"


def drawn(row: Row, kind: str, source: random.Random) -> Iterator[tuple[list[Pair], float, str]]:
    for commit in range(COMMITS):
        shift, label = truth(kind, commit)
        rounds = []
        for _ in range(ROUNDS):
            first = source.randrange(len(row.values) - 1)
            sides = [row.values[first], row.values[first + 1]]
            source.shuffle(sides)
            if kind == "disturbed":
                sides = [side + (math.log1p(source.uniform(*SHOCK)) if source.random() < DISTURBED else 0.0) for side in sides]
            rounds.append((sides[0] + shift, sides[1]))
        yield rounds, shift, label


def lines(rows: Sequence[Row]) -> Iterator[list[object]]:
    for row in rows:
        kinds = {"measured": measured(row)}
        kinds |= (
            {}
            if len(row.values) < 2 * ROUNDS
            else {
                kind: drawn(row, kind, random.Random(f"{row.name} {row.origin} {kind}"))
                for kind in ("steps", "creep", "disturbed")
            }
        )
        for kind, points in kinds.items():
            for commit, (rounds, shift, label) in enumerate(points):
                ratios = [head - anchor for head, anchor in rounds]
                error = statistics.stdev(ratios) / math.sqrt(len(ratios))
                how = "measured" if kind == "measured" else "drawn"
                numbers = [f"{value:.9f}" for value in (statistics.fmean(ratios), error, shift)]
                yield [f"{row.name} {kind}", row.origin, commit, how, *numbers[:2], len(ratios), numbers[2], label]


def main() -> None:
    rows = [*recorded(), *(row for folder in sys.argv[2:] for row in sitting(Path(folder)))]
    with Path(sys.argv[1]).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["series", "recording", "commit", "origin", "log_ratio", "standard_error", "rounds", "truth", "label"])
        writer.writerows(lines(rows))
    medians = sum(len(row.values) + sum(map(len, row.planted.values())) for row in rows)
    print(f"{len(rows)} kernels, {medians} medians of processes that ran")


if __name__ == "__main__":
    main()
