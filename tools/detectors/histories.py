"""Histories from recorded noise, and the detector of the tool for thousands of series at once.

``Batch`` repeats ``flashcore_ci/history/detection.py`` in numpy. ``replaying.py`` runs the tool's own code on the same rounds, and the
benchmark counts where both decide the same.
"""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import labelled
import numpy as np

from flashcore_ci.history import detection as own
from flashcore_ci.history import scatter
from flashcore_ci.history.levels import SHARES
from flashcore_ci.model.metrics import primary_scale
from flashcore_ci.model.suite import Roof

ROOT = Path(__file__).resolve().parents[2]
FIRST_LOOK = 5
SUITE = 20
SHORT = 4
SHOCK = (0.005, 0.05)
"""By how much a disturbed process is slower: uniform."""
Array = np.ndarray


@dataclass(frozen=True)
class Row:
    """Logs of recorded processes of one workload, in their order. ``lengths``: of the sittings that they are of."""

    name: str
    values: Array
    lengths: tuple[int, ...]

    @property
    def scatter(self) -> float:
        parts = np.split(self.values, np.cumsum(self.lengths)[:-1])
        return math.sqrt(sum(((part - part.mean()) ** 2).sum() for part in parts) / (len(self.values) - len(parts)))

    def starts(self, count: int) -> Array:
        """Return where ``count`` consecutive processes of one sitting begin."""
        ends = np.cumsum(self.lengths)
        return np.concatenate([np.arange(end - length, end - count + 1) for end, length in zip(ends, self.lengths, strict=True)])


def recorded_rows() -> list[Row]:
    noise = json.loads(lzma.decompress((ROOT / "docs/performance/noise-2026-11-21.json.xz").read_bytes()))
    values = {each["workload"]: np.log(each["same"][primary_scale(Roof(each["roof"]))]) for each in noise["workloads"]}
    return [Row(name, each, (len(each),)) for name, each in values.items()]


def sitting_rows(folder: Path) -> list[Row]:
    """Read the unchanged kernels of a sitting. Short sittings of a kernel are joined, if at least ``SHORT`` have it."""
    found: dict[str, list[Array]] = {}
    for row in labelled.sitting(folder):
        if not row.planted:
            values = np.array(row.values)
            found.setdefault(row.name.split()[0] if len(values) < 2 * FIRST_LOOK else row.name, []).append(values)
    return [
        Row(name, np.concatenate(parts), tuple(map(len, parts)))
        for name, parts in found.items()
        if len(parts) >= SHORT or len(parts[0]) >= 2 * FIRST_LOOK
    ]


class Source:
    """Draw rounds for series of these rows. The sides of a round are consecutive processes of one sitting, in random order."""

    def __init__(self, rows: list[Row], series: Array, *, seed: int, disturbed: float = 0.0) -> None:
        shortest = min(len(row.values) for row in rows)
        self.values, self.series = np.array([row.values[:shortest] for row in rows]), series
        self.starts = {
            sides: [found[found + sides <= shortest] for found in (row.starts(sides) for row in rows)] for sides in (2, 3)
        }
        self.random, self.disturbed = np.random.default_rng(seed), disturbed

    def processes(self, which: Array, count: int, sides: int = 2) -> tuple[Array, ...]:
        """Return log values of head and anchor, and of the parent if there are three sides."""
        rows, starts = self.series[which], self.starts[sides]
        sizes, most = np.array(list(map(len, starts))), max(map(len, starts))
        padded = np.array([np.resize(each, most) for each in starts])
        first = padded[rows[:, None], self.random.integers(0, sizes[rows][:, None], (len(which), count))]
        order = self.random.permuted(np.broadcast_to(np.arange(sides), (len(which), count, sides)), axis=2)
        values = self.values[rows[:, None, None], first[:, :, None] + order]
        return tuple(values[:, :, side] + self._shock(first.shape) for side in range(sides))

    def _shock(self, shape: tuple[int, ...]) -> Array:
        if not self.disturbed:
            return np.zeros(shape)
        hit = self.random.random(shape) < self.disturbed
        return np.log1p(hit * self.random.uniform(*SHOCK, shape))


Truth = Callable[[int, Array], Array]
"""True log ratio at a commit, of these series."""


class Batch:
    """Run every series for some commits, each with new code. ``found`` has (series, commit, is slower, first commit)."""

    def __init__(self, source: Source, rate: float, commits: int, *, keep: bool = False) -> None:
        self.source, self.rate, self.count = source, rate, len(source.series)
        self.df, self.total = np.zeros(self.count), np.zeros(self.count)
        self.early: list[tuple[Array, Array]] = []
        self.sat, self.bad = np.zeros(self.count), np.zeros(self.count)
        self.steps, self.squares = np.zeros(self.count), np.zeros(self.count)
        self.before = np.full((self.count, 2), np.nan)
        self.n, self.y = np.zeros((self.count, commits + 1)), np.zeros((self.count, commits + 1))
        self.start = np.zeros(self.count, int)
        self.found: list[tuple[int, int, bool, int]] = []
        self.shift = np.zeros(self.count)  # of the commit before
        self.again, self.log = 0, [] if keep else None

    def run(self, truth: Truth, commits: int, start: int = 0) -> Batch:
        everyone = np.arange(self.count)
        for commit in range(start, commits):
            shift = truth(commit, everyone)
            if commit < scatter.MIN_SITTINGS:
                self._begin(commit, everyone, shift)
                self.shift = shift
                continue
            level = np.zeros(
                (self.count, 11)
            )  # rounds, mean, squares, mean and rounds of both sittings, their means with the parent
            disturbed = self._sit(commit, everyone, FIRST_LOOK, shift, level, 0)
            _, excess, *_ = self._best(commit, everyone, level)
            wanted = np.where(disturbed, own.ROUNDS, np.clip(own.ROUNDS - level[:, 0], own.FEWEST_ROUNDS, own.ROUNDS)).astype(int)
            suspects = disturbed | (excess > -own.SUSPECT)
            self.again += int(suspects.sum())
            for count in np.unique(wanted[suspects]):
                self._decide(commit, everyone[suspects & (wanted == count)], int(count), shift, level)
            self.n[:, commit + 1] = self.n[:, commit] + level[:, 0]
            self.y[:, commit + 1] = self.y[:, commit] + level[:, 0] * level[:, 1]
            self.shift = shift
        return self

    def _draw(self, commit: int, which: Array, count: int, shift: Array) -> tuple[Array, Array, Array, Array]:
        """Return mean and variance of log(head / anchor), then of log(head / parent)."""
        head, anchor, parent = self.source.processes(which, count, 3)
        ratios = head - anchor + shift[which][:, None]
        steps = head - parent + (shift - self.shift)[which][:, None]
        self.drawn = ratios, steps
        if self.log is not None:
            self.log.append((commit, which, ratios, steps))
        return ratios.mean(1), ratios.var(1, ddof=1), steps.mean(1), steps.var(1, ddof=1)

    def _begin(self, commit: int, which: Array, shift: Array) -> None:
        """Collect the first sittings, and judge them together."""
        self.early.append(self._draw(commit, which, FIRST_LOOK, shift)[:2])
        if commit + 1 < scatter.MIN_SITTINGS:
            return
        df, variances = FIRST_LOOK - 1, np.stack([variance for _, variance in self.early], 1)
        most = scatter.FIRST_CLIP * np.median(variances / scatter.median_of_chi2(df), 1)
        self.df += scatter.MIN_SITTINGS * df
        self.total += np.minimum(variances, most[:, None]).sum(1) * df
        limit = self._variance(which) * _by_df(self._df(which), lambda each: [scatter.largest_ratio(df, each)])[:, 0]
        for place, (mean, variance) in enumerate(self.early):
            good = variance <= limit
            self.sat, self.bad = self.sat + 1, self.bad + ~good
            self._step(which[good], mean[good], FIRST_LOOK)
            self.n[:, place + 1] = self.n[:, place] + FIRST_LOOK * good
            self.y[:, place + 1] = self.y[:, place] + FIRST_LOOK * good * mean

    def _sit(self, commit: int, which: Array, count: int, shift: Array, level: Array, sitting: int) -> Array:
        mean, variance, step, spread = self._draw(commit, which, count, shift)
        ratios, steps, rounds = *self.drawn, np.full(len(which), count)
        limits = self._variance(which)[:, None] * _by_df(
            self._df(which), lambda each: [scatter.largest_ratio(count - 1, each), scatter.largest_ratio(count - 2, each)]
        )
        fewer = variance > limits[:, 0]
        self.sat[which] += 1
        self.bad[which] += fewer
        too = fewer & (spread > limits[:, 0])
        (mean[fewer], variance[fewer]), (step[too], spread[too]) = one_less(ratios[fewer]), one_less(steps[too])
        rounds[fewer] -= 1
        limit = np.where(fewer, limits[:, 1], limits[:, 0])
        disturbed = variance > limit
        alone = spread > limit  # the parent was disturbed
        good, mean, variance, step, rounds = (each[~disturbed] for each in (which, mean, variance, step, rounds))
        self.df[good] += rounds - 1
        self.total[good] += variance * (rounds - 1)
        self._step(good, mean, rounds)
        old, total = level[good, 0], level[good, 0] + rounds
        new_mean = (old * level[good, 1] + rounds * mean) / total
        between = old * (level[good, 1] - new_mean) ** 2 + rounds * (mean - new_mean) ** 2
        level[good, 2] += variance * (rounds - 1) + np.where(old > 0, between, 0.0)
        level[good, 0], level[good, 1] = total, new_mean
        level[good, 4 + 2 * sitting], level[good, 5 + 2 * sitting], level[good, 8 + sitting] = mean, rounds, (mean + step) / 2
        level[good, 10] += alone[~disturbed]
        return disturbed

    def _step(self, which: Array, mean: Array, count: Array | int) -> None:
        before = self.before[which]
        use = ~np.isnan(before[:, 0])
        with np.errstate(invalid="ignore"):
            step = (mean - before[:, 0]) ** 2 / (self._variance(which) * (1 / before[:, 1] + 1 / count))
        self.steps[which] += use
        self.squares[which] += np.where(use, np.minimum(scatter.CLIP, step), 0.0)
        self.before[which] = np.stack([mean, np.zeros(len(which)) + count], 1)

    def _best(self, commit: int, which: Array, level: Array) -> tuple[Array, ...]:
        """Window, excess, sign, what was before, and whether the parent counts, of the best window."""
        n, steps = level[which, 0], np.maximum(1, self.steps[which])
        found = self.squares[which] / steps / scatter.CLIPPED_MEAN
        factor = np.where((self.steps[which] > 0) & (found > 1 + 2.33 * np.sqrt(3 / steps)), found, 1.0)
        variance = self._variance(which)
        limits = _by_df(self._df(which), lambda df: [limit for _, limit in own._limits(self.rate, df)])  # noqa: SLF001
        expected = np.array([0.0, *(scatter.largest_sum(k) for k in range(1, 40))])[np.maximum(0, n - 1).astype(int)]
        allowance = np.sqrt(np.maximum(0.0, level[which, 2] / variance - expected) / 3.0) * (n > 1)
        often = (self.bad[which] >= scatter.FEW) & (self.bad[which] > scatter.OFTEN * self.sat[which])
        allowance = allowance + scatter.UNNOTICED * often
        best = [
            np.zeros(len(which), int),
            np.full(len(which), -np.inf),
            np.ones(len(which)),
            np.zeros(len(which)),
            np.zeros(len(which)),
        ]
        with_parent = (level[which, 5] * level[which, 8] + level[which, 7] * level[which, 9]) / np.maximum(1, n)
        for index, (window, has_parent) in enumerate(own.WINDOWS):
            at, start, (share, part) = commit + 1 - window, self.start[which], SHARES[has_parent]
            if at <= 0:
                break
            before = self.n[which, at] - self.n[which, start]
            rounds = self.n[which, commit] - self.n[which, at] + n
            with np.errstate(all="ignore"):
                mean_before = part * (self.y[which, at] - self.y[which, start]) / before
                newest = (self.y[which, commit] - self.y[which, at] + n * level[which, 1]) / rounds
                change = (with_parent if has_parent else newest) - mean_before
                size = np.abs(change) / np.sqrt(variance * factor * (share / rounds + part**2 / before))
                size = np.maximum(0.0, size - allowance * np.sqrt(n / rounds / share)) - limits[:, index]
            better = (at > start) & (before > 0) & (rounds > 0) & (n > 0) & (size > best[1])
            better &= (level[which, 10] == 0) | (not has_parent)
            for place, value in enumerate((window, size, np.sign(change), mean_before, has_parent)):
                best[place] = np.where(better, value, best[place])
        return tuple(best)

    def _decide(self, commit: int, which: Array, count: int, shift: Array, level: Array) -> None:
        self._sit(commit, which, count, shift, level, 1)
        window, excess, sign, before, has_parent = self._best(commit, which, level)
        agrees, share = np.ones(len(which), bool), np.where(has_parent, SHARES[True][0], SHARES[False][0])
        for sitting in (0, 1):
            rounds = level[which, 5 + 2 * sitting]
            mean = np.where(has_parent, level[which, 8 + sitting], level[which, 4 + 2 * sitting])
            bound = own.EACH_SITTING * np.sqrt(self._variance(which) * share / np.maximum(1, rounds))
            agrees &= (rounds == 0) | (sign * (mean - before) > bound)
        hits = (excess > 0) & (level[which, 0] >= own.ROUNDS - 1) & agrees
        for series, width, slower in zip(which[hits], window[hits], sign[hits] > 0, strict=True):
            self.start[series] = commit + 1 - width
            self.found.append((int(series), commit, bool(slower), int(commit + 1 - width)))

    def _variance(self, which: Array) -> Array:
        return self.total[which] / self.df[which]

    def _df(self, which: Array) -> Array:
        df = np.minimum(scatter.MAX_DF, self.df[which].astype(int))
        return np.where(df < 50, df, np.where(df < 500, df - df % 25, df - df % 250))


def one_less(rounds: Array) -> tuple[Array, Array]:
    """Return mean and variance of each sitting's rounds without the one that is farthest from their mean."""
    far = np.abs(rounds - rounds.mean(1, keepdims=True)).argmax(1)
    rest = rounds[np.arange(rounds.shape[1]) != far[:, None]].reshape(len(rounds), rounds.shape[1] - 1)
    return rest.mean(1), rest.var(1, ddof=1)


def _by_df(df: Array, value: Callable[[int], list[float]]) -> Array:
    unique, inverse = np.unique(df, return_inverse=True)
    return np.array([value(int(each)) for each in unique], float)[inverse]


@cache
def rate(series: int = SUITE) -> float:
    return own.rate_of(series)
