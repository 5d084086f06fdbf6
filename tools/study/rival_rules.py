"""The published rules of other tools, each from its documentation.

A rule gets a median of settled blocks per fresh process, and returns whether head is slower.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from functools import cache
from itertools import zip_longest
from typing import NamedTuple


class ProcessSamples(NamedTuple):
    """The processes of one side."""

    ms: Sequence[float]
    megacycles: Sequence[float]


Rule = Callable[[ProcessSamples, ProcessSamples], bool]


def nvbench_legacy(base: ProcessSamples, head: ProcessSamples) -> bool:
    """SLOW: the means differ by more than the smaller relative standard deviation.

    https://github.com/NVIDIA/nvbench, nvbench-compare-legacy (docs/nvbench_compare_robust.md: "mean/stdev-based").
    """
    means = [statistics.fmean(side.ms) for side in (base, head)]
    noise = [statistics.stdev(side.ms) / mean for side, mean in zip((base, head), means, strict=True)]
    return means[1] / means[0] - 1.0 > min(noise)


def nvbench_robust(base: ProcessSamples, head: ProcessSamples) -> bool:
    """SLOW: head's interval from minimum to upper quartile lies 0.5 % or more above base's, in time and in cycles.

    https://github.com/NVIDIA/nvbench/blob/main/docs/nvbench_compare_robust.md, sections 1 and 2, default configuration.
    """
    return all(_gap(getattr(base, scale), getattr(head, scale)) >= 0.005 for scale in ("ms", "megacycles"))  # noqa: PLR2004


def _gap(base: Sequence[float], head: Sequence[float]) -> float:
    upper = statistics.quantiles(base, n=4, method="inclusive")[2]
    return (min(head) - upper) / upper


def asv(base: ProcessSamples, head: ProcessSamples) -> bool:
    """Worse: Mann-Whitney U, two-sided p < 0.002, and the medians' ratio is above 1.1.

    https://asv.readthedocs.io (compare, continuous: --factor 1.1); asv/_stats.py, is_different.
    """
    ratio = statistics.median(head.ms) / statistics.median(base.ms)
    return mann_whitney_p(base.ms, head.ms) < 0.002 and ratio > 1.1  # noqa: PLR2004


def github_action_benchmark(base: ProcessSamples, head: ProcessSamples) -> bool:
    """Alert: more than 200 % of the previous value.

    https://github.com/benchmark-action/github-action-benchmark, input alert-threshold, default "200%".
    """
    return statistics.fmean(head.ms) > 2.0 * statistics.fmean(base.ms)


def ten_per_cent(base: ProcessSamples, head: ProcessSamples) -> bool:
    """Mean more than 10 % above: what `pytest --benchmark-compare-fail=mean:10%` asks (https://pytest-benchmark.readthedocs.io)."""
    return statistics.fmean(head.ms) > 1.1 * statistics.fmean(base.ms)


def mann_whitney(base: ProcessSamples, head: ProcessSamples) -> bool:
    """Slower: Mann-Whitney U, two-sided p < 0.05, and a higher median, as benchstat reports a change.

    https://pkg.go.dev/golang.org/x/perf/cmd/benchstat (-alpha 0.05, the default test).
    """
    return mann_whitney_p(base.ms, head.ms) < 0.05 and statistics.median(head.ms) > statistics.median(base.ms)  # noqa: PLR2004


RULES: dict[str, Rule] = {
    "NVBench, nvbench-compare-legacy": nvbench_legacy,
    "NVBench, nvbench-compare-robust": nvbench_robust,
    "asv compare (p < 0.002 and factor 1.1)": asv,
    "github-action-benchmark (200 %)": github_action_benchmark,
    "a threshold of 10 %": ten_per_cent,
    "Mann-Whitney, p < 0.05 (benchstat)": mann_whitney,
}


def mann_whitney_p(a: Sequence[float], b: Sequence[float]) -> float:
    """Exact two-sided p (H. B. Mann, D. R. Whitney, Ann. Math. Statist. 18(1), 1947); ties count half."""
    u = sum(1.0 if y > x else 0.5 if y == x else 0.0 for x in a for y in b)
    counts = orderings(len(a), len(b))
    tail = min(u, len(a) * len(b) - u)
    below = sum(count for value, count in enumerate(counts) if value <= tail)
    return min(1.0, 2.0 * below / math.comb(len(a) + len(b), len(a)))


@cache
def orderings(m: int, n: int) -> tuple[int, ...]:
    """How many orderings of m and n values give each U, by the sample that has the largest value."""
    if not m or not n:
        return (1,)
    ours, theirs = (*[0] * n, *orderings(m - 1, n)), orderings(m, n - 1)
    return tuple(x + y for x, y in zip_longest(ours, theirs, fillvalue=0))
