"""Compare detectors on histories from recorded noise, and write the tables of docs/history-detectors.md.

    python tools/detectors/benchmark.py [--out PAGE] [--suites N] [--trials N] [--treeherder CHECKOUT] [--sitting FOLDER]

Draws are seeded. ``--sitting``: our rates on a sitting that ``sitting.py`` recorded, and no peers. ``--treeherder`` is a checkout of mozilla/treeherder, whose labelled series are read and never copied.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import labelled
from histories import ROOT, SUITE, Batch, Row, Source, rate, recorded_rows, sitting_rows
from replaying import replayed

from flashcore_ci.history import unanchored
from flashcore_ci.judge.stats.distributions import chi2_quantile, f_quantile

BEGIN, END = "<!-- tables: tools/detectors/benchmark.py -->", "<!-- end of tables -->"
COMMITS = 400
WARM = 200
DISTURBED = 0.02
SWAP = 0.01
"""How much faster or slower another GPU is."""
LABELS = {
    "runs1": [1365019665],
    "runs2": [1357704596, 1358971894, 1365014104],
    "runs3": [1335293827, 1338839958],
    "runs4": [1364922838],
    "runs5": [],
    "a11y": [1366197637, 1367799757],
    "tp5rss": [1372846906, 1373413365, 1373424974],
}
"""What tests/perfalert/test_analyze.py of treeherder expects: seconds since 1970."""
GRAPHS = "tests/sample_data/artifacts/performance/graphs"
FACTORS = (3.2, 3.4, 3.6, 3.8, 4.0, 4.4, 5.0, 6.3, 8.0, 10.0)


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def bound(events: int, commits: int) -> float:
    """95 % upper bound of events per 1,000 commits (Poisson, Garwood 1936)."""
    return 1000.0 * chi2_quantile(0.05, 2.0 * (events + 1)) / 2.0 / commits


def false_alerts(rows: list[Row], suites: int) -> Iterator[list[object]]:
    for name, share in (("clean", 0.0), ("2 % of processes disturbed", DISTURBED)):
        series = np.arange(SUITE * suites) % SUITE % len(rows)
        batch = Batch(Source(rows, series, seed=11, disturbed=share), rate(), COMMITS).run(unchanged, COMMITS)
        alerts, commits = sum(slower for *_, slower, _ in batch.found), suites * COMMITS
        again = 100.0 * batch.again / (len(series) * COMMITS)
        yield [name, commits, alerts, f"{bound(alerts, commits):.3f}", len(batch.found) - alerts, f"{again:.1f} %"]


def unchanged(_: int, which: np.ndarray) -> np.ndarray:
    return np.zeros(len(which))


def warmed(rows: list[Row], trials: int, seed: int = 5) -> Batch:
    """Every row ``trials`` times, after 200 commits without a change of speed."""
    series = np.repeat(np.arange(len(rows)), trials)
    return Batch(Source(rows, series, seed=seed), rate(), WARM + 20).run(unchanged, WARM)


def share_seen(warm: Batch, percent: Sequence[float], trials: int) -> list[int]:
    """Count the trials of each row in which a step of its size is reported at its commit."""
    batch = copy.deepcopy(warm)
    shifts = np.repeat(np.log1p(np.asarray(percent) / 100.0), trials)
    known = len(batch.found)
    batch.run(lambda _, which: shifts[which], WARM + 1, WARM)
    hits = [series for series, _, slower, first in batch.found[known:] if slower and first == WARM]
    return np.bincount(np.array(hits, int) // trials, minlength=len(percent)).tolist()


def steps(rows: list[Row], warm: Batch, trials: int) -> Iterator[list[object]]:
    wanted = [0.3 if 100 * row.scatter <= 0.07 else 0.5 for row in rows]
    fixed = share_seen(warm, wanted, trials)
    grid = {factor: share_seen(warm, [100 * factor * row.scatter for row in rows], trials) for factor in FACTORS}
    for index, row in enumerate(rows):
        smallest = next((f for f in FACTORS if grid[f][index] >= 0.99 * trials), None)
        most = f"none: at most {100 * max(grid[f][index] for f in FACTORS) / trials:.1f} % up to +{100 * FACTORS[-1] * row.scatter:.1f} %"
        size = f"{100 * smallest * row.scatter:.2f} %" if smallest else most
        lower = lower_bound(fixed[index], trials)
        yield [
            row.name, f"{100 * row.scatter:.3f} %", f"+{wanted[index]} %",
            f"{100 * fixed[index] / trials:.1f} % (≥ {100 * lower:.1f} %)", size,
        ]  # fmt: skip


def lower_bound(hits: int, trials: int) -> float:
    """95 % lower bound of a share (Clopper, Pearson 1934)."""
    return hits / (hits + (trials - hits + 1) * f_quantile(0.05, 2.0 * (trials - hits + 1), 2.0 * hits)) if hits else 0.0


def creep(rows: list[Row], warm: Batch, trials: int) -> Iterator[list[object]]:
    """Ten commits of +0.1 % each: commits from the one that reaches 0.5 % until the alert."""
    batch = copy.deepcopy(warm)
    known = len(batch.found)
    batch.run(lambda commit, which: np.full(len(which), 1e-3 * min(10, commit - WARM + 1)), WARM + 20, WARM)
    first: dict[int, int] = {}
    for series, commit, slower, _ in batch.found[known:]:
        if slower:
            first.setdefault(series, commit - WARM - 4)
    for index, row in enumerate(rows):
        delays = sorted(first.get(series, 99) for series in range(index * trials, (index + 1) * trials))
        in_time = sum(delay <= 5 for delay in delays)
        shown = f"{100 * in_time / trials:.1f} % (≥ {100 * lower_bound(in_time, trials):.1f} %)"
        median = delays[trials // 2]
        yield [row.name, f"{100 * row.scatter:.3f} %", shown, "not found" if median == 99 else median]


def peers(rows: list[Row]) -> Iterator[list[object]]:
    from peers import PEERS

    names = ("clean", "disturbed", "step 0.5", "step 1", "creep", "swap")
    data = {name: history(rows, name) for name in names}
    for label, find in PEERS.items():
        found = {name: [find(values) for values in each] for name, each in data.items()}
        false = [f"{1000 * sum(map(len, found[name])) / COMMITS:.1f}" for name in ("clean", "disturbed")]
        near = [sum(any(0 <= i - WARM + 2 <= 4 for i in each) for each in found[name]) for name in ("step 0.5", "step 1")]
        late = sum(any(WARM <= i <= WARM + 14 for i in each) for each in found["creep"])
        swapped = sum(any(0 <= i - WARM + 2 <= 4 for i in each) for each in found["swap"])
        yield [label, *false, *(f"{count} of {len(rows)}" for count in (*near, late, swapped))]


def anchored(rows: list[Row], warm: Batch, trials: int) -> list[object]:
    """Count for the rows above what one history of each shows to the detector with an anchor. Another GPU moves head and anchor."""
    known, counts = len(warm.found), []
    for name in ("step 0.5", "step 1", "creep", "swap"):
        batch = copy.deepcopy(warm)
        size = {"step 0.5": 0.005, "step 1": 0.01}.get(name, 0.0)
        shift = (lambda commit: 1e-3 * min(10, commit - WARM + 1)) if name == "creep" else (lambda _, size=size: np.log1p(size))
        batch.run(lambda commit, which, shift=shift: np.full(len(which), shift(commit)), WARM + 15, WARM)
        limit = WARM + 14 if name == "creep" else WARM + 2
        counts.append(len({s // trials for s, at, _, _ in batch.found[known:] if s % trials == 0 and at <= limit}))
    return ["**ours, with an anchor**", "see above", "see above", *(f"{count} of {len(rows)}" for count in counts)]


def history(rows: list[Row], kind: str) -> list[np.ndarray]:
    """Absolute numbers, one mean of five processes per commit: a suite for false alerts, else every row once."""
    is_null = kind in {"clean", "disturbed"}
    series = np.arange(SUITE if is_null else len(rows)) % len(rows)
    source = Source(rows, series, seed=7, disturbed=DISTURBED if kind == "disturbed" else 0.0)
    count, place = COMMITS if is_null else WARM + 40, np.arange(COMMITS if is_null else WARM + 40) - WARM
    logs = np.stack([source.processes(np.arange(len(series)), 5)[0].mean(1) for _ in range(count)], 1)
    size = {"step 0.5": 0.005, "step 1": 0.01, "swap": SWAP}.get(kind, 0.0)
    shift = 1e-3 * np.clip(place + 1, 0, 10) if kind == "creep" else np.where(place >= 0, np.log1p(size), 0.0)
    return list(np.exp(logs + shift))


def treeherder(checkout: Path) -> list[list[object]]:
    lines = []
    for name, expected in LABELS.items():
        data = (checkout / GRAPHS / f"{name}.json").read_bytes()
        runs = sorted(json.loads(data)["test_runs"], key=lambda run: run[2])
        found = [runs[each.first][2] for each in unanchored.changes([run[3] for run in runs])]
        hits = len(set(found) & set(expected))
        lines.append([name, hashlib.sha256(data).hexdigest()[:16], len(runs), f"{hits} of {len(expected)}", len(found) - hits])
    return lines


def equal_decisions(rows: list[Row]) -> str:
    """Compare the batch with the tool's own code on the same rounds."""
    source = Source(rows, np.arange(18) % len(rows), seed=3, disturbed=DISTURBED)
    batch = Batch(source, rate(), 300, keep=True)
    batch.run(lambda commit, which: np.full(len(which), 0.01 * (commit >= 150)), 300)
    same = sum(replayed(batch, series) == [each for each in batch.found if each[0] == series] for series in range(18))
    return f"The batch decides as `history/detection.py` does in {same} of 18 series of 300 commits ({len(batch.found)} changes)."


def planted(folder: Path) -> Iterator[list[object]]:
    """Compare what was planted with what was measured: the mean log ratio of a level to the unchanged kernel, with its error."""
    for row in labelled.sitting(folder):
        for level, pairs in sorted(row.planted.items()):
            ratios = np.array([head - base for head, base in pairs])
            error = ratios.std(ddof=1) / np.sqrt(len(ratios))
            found = f"{100 * np.expm1(ratios.mean()):+.3f} % ± {100 * error:.3f}"
            yield [row.name, row.origin.rpartition(" ")[2], f"+{level:g} %", found, len(pairs)]


def sections(options: argparse.Namespace) -> Iterator[str]:
    rows = sitting_rows(options.sitting) if options.sitting else recorded_rows()
    if options.sitting and (found := list(planted(options.sitting))):
        yield table(["kernel", "GPU", "planted", "measured", "pairs"], found)
    yield equal_decisions(rows)
    heads = ["histories", "commits of 20 series", "false alerts", "per 1,000, 95 % bound", "false improvements", "measured again"]
    yield table(heads, list(false_alerts(rows, options.suites)))
    warm = warmed(rows, options.trials)
    yield table(
        ["row", "scatter", "step", f"seen at the commit, of {options.trials}", "smallest step ≥ 99 %"],
        list(steps(rows, warm, options.trials)),
    )
    yield table(
        ["row", "scatter", "found within 5 commits of 0.5 %", "median delay, commits"], list(creep(rows, warm, options.trials))
    )
    if options.sitting:
        return
    heads = ["absolute numbers", "false, clean", "false, disturbed", "+0.5 %", "+1 %", "creep", "another GPU, same code"]
    yield table(heads, [*peers(rows), anchored(rows, warm, options.trials)])
    if options.treeherder:
        yield table(["series", "SHA-256 of the file", "points", "labels found", "extra"], treeherder(options.treeherder))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--suites", type=int, default=100, help="suites of 20 series and 400 commits")
    parser.add_argument("--trials", type=int, default=500, help="series per row")
    parser.add_argument("--treeherder", type=Path)
    parser.add_argument("--sitting", type=Path)
    options = parser.parse_args()
    text = ""
    for section in sections(options):
        print(section, flush=True)
        text += f"{section}\n\n"
    if options.out:
        page = (ROOT / options.out).read_text(encoding="utf-8")
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        (ROOT / options.out).write_text(f"{before}{BEGIN}\n\n{text}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
