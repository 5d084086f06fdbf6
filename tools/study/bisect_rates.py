"""How often does `bisect` find the right commit, and after how many comparisons?

``python tools/study/bisect_rates.py`` simulates histories of 200 commits of which 6 change the kernel, and one of these is slower.
A process is drawn from the recorded A/A processes of one workload, with seeds. So the rates hold for recorded noise.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from flashcore_ci.history.bisect import LOOKS, Placement, State, place, search
from flashcore_ci.judge.stats.common_clock import blend
from flashcore_ci.judge.stats.paired_estimate import Prior, priors
from flashcore_ci.model.codes import Code
from flashcore_ci.model.metrics import primary_scale
from flashcore_ci.model.noise import Noise
from flashcore_ci.store.record_files import read_all

COMMITS, CHANGES, STEPS = 200, 6, (0.5, 1.0, 3.0)
Row = tuple[int, bool, bool, int]
"""Comparisons, found the right commit, found none, rounds."""


def history(drawn: random.Random) -> tuple[list[State], int]:
    """Return 200 states, and which code is the first slow one."""
    changes = sorted(drawn.sample(range(1, COMMITS), CHANGES))
    states = [State(commit=f"{n:040x}", code=f"code {sum(at <= n for at in changes)}") for n in range(COMMITS)]
    return states, drawn.randint(1, CHANGES)


def simulate(values: tuple[float, ...], percent: float, prior: Prior | None, seed: str) -> Row:
    """Bisect one made-up history."""
    drawn = random.Random(seed)  # noqa: S311 - made-up histories
    states, culprit = history(drawn)
    rounds = 0

    def process(slow: bool) -> float:
        return drawn.choice(values) * (1 + percent / 100 if slow else 1)

    def measure(state: State) -> Placement | None:
        nonlocal rounds
        is_slow, found, sides = int(state.code.split()[1]) >= culprit, None, ([], [], [])
        for look in LOOKS:
            while len(sides[0]) < look:
                rounds += 1
                for side, slow in zip(sides, (False, is_slow, True), strict=True):
                    side.append(process(slow))
            found = place(*sides, prior)
            if found is not None and found.code is not Code.UNDECIDED:
                break
        return found

    found = search(states, measure)
    is_decided = not any(state.code for state in found.between) and found.is_real
    is_right = is_decided and found.first_bad.code == f"code {culprit}"
    return len(found.steps), is_right, not is_decided, rounds


def lines(noise: Noise, draws: int) -> Iterator[str]:
    """Yield the table: per step the median of comparisons and rounds, and how often the right commit was named. Last the worst figures."""
    yield f"| workload | scatter | {' | '.join(f'+{percent} %' for percent in STEPS)} |"
    yield f"| --- | --- |{' --- |' * len(STEPS)}"
    most, wrong = 0, 0
    for row in noise.workloads:
        scale = primary_scale(row.roof)
        prior = priors(noise, scale).get(row.workload)
        values = blend(row.same.megacycles, row.same.ms, prior.slope) if prior and prior.slope else getattr(row.same, scale)
        cells = []
        for percent in STEPS:
            found = [simulate(values, percent, prior, f"{row.workload} {percent} {n}") for n in range(draws)]
            counts, rights, nones, rounds = (list(column) for column in zip(*found, strict=True))
            most, wrong = max(most, *counts), wrong + draws - sum(rights) - sum(nones)
            middle = f"{statistics.median(counts):g} in {statistics.median(rounds):g} rounds"
            cells.append(f"{middle}, {100 * sum(rights) / draws:.1f} %")
        yield f"| `{row.workload}` | {100 * statistics.stdev(map(math.log, values)):.3f} % | {' | '.join(cells)} |"
    yield ""
    yield f"At most {most} comparisons. A wrong commit was named {wrong} times."


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    given = parser.parse_args(arguments)
    ((_, noise),) = read_all(Noise, Path("gates/noise"))
    for line in lines(noise, given.draws):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
