"""Histories from recorded noise, and the detector of the tool for thousands of series at once.

``Batch`` repeats ``flashcore_ci/history/detection.py`` in numpy. ``replayed`` runs the tool's own code on the same rounds, and the benchmark
counts where both decide the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import labelled
import numpy as np

from flashcore_ci.history import detection as own
from flashcore_ci.history import scatter
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
    """Logs of recorded processes of one workload, in their order."""

    name: str
    values: Array

    @property
    def scatter(self) -> float:
        return float(np.std(self.values, ddof=1))


def recorded_rows() -> list[Row]:
    noise = json.loads((ROOT / "gates/noise/nvidia-h200.json").read_text(encoding="utf-8"))
    return [Row(each["workload"], np.log(each["same"][primary_scale(Roof(each["roof"]))])) for each in noise["workloads"]]


def sitting_rows(folder: Path) -> list[Row]:
    """Read the unchanged kernels of a sitting. GPUs are put one after the other, each about its own mean, and rows cut to one length.

    Short sittings of a kernel are joined, about their means and without the shrinkage of those, if at least ``SHORT`` have it.
    """
    found: dict[str, list[Array]] = {}
    for row in labelled.sitting(folder):
        if not row.planted:
            values, is_short = np.array(row.values), len(row.values) < 2 * FIRST_LOOK
            factor = math.sqrt(len(values) / (len(values) - 1)) if is_short else 1.0
            found.setdefault(row.name.split()[0] if is_short else row.name, []).append(factor * (values - values.mean()))
    rows = {
        name: np.concatenate(parts) for name, parts in found.items() if len(parts) >= SHORT or len(parts[0]) >= 2 * FIRST_LOOK
    }
    shortest = min(map(len, rows.values()))
    return [Row(name, values[:shortest]) for name, values in rows.items()]


class Source:
    """Draw rounds for series of these rows. Head and anchor of a round are consecutive processes, in random order."""

    def __init__(self, rows: list[Row], series: Array, *, seed: int, disturbed: float = 0.0) -> None:
        self.values, self.series = np.array([row.values for row in rows]), series  # equally long
        self.random, self.disturbed = np.random.default_rng(seed), disturbed

    def processes(self, which: Array, count: int) -> tuple[Array, Array]:
        """Log values of head and anchor."""
        rows = self.series[which][:, None]
        first = self.random.integers(0, self.values.shape[1] - 1, (len(which), count))
        turn = self.random.integers(0, 2, first.shape)
        sides = self.values[rows, first + turn], self.values[rows, first + 1 - turn]
        return tuple(side + self._shock(side.shape) for side in sides)  # type: ignore[return-value]

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
        self.again, self.log = 0, [] if keep else None

    def run(self, truth: Truth, commits: int, start: int = 0) -> Batch:
        everyone = np.arange(self.count)
        for commit in range(start, commits):
            shift = truth(commit, everyone)
            if commit < scatter.MIN_SITTINGS:
                self._begin(commit, everyone, shift)
                continue
            level = np.zeros((self.count, 8))  # rounds, mean, squares, then mean and rounds of both sittings
            disturbed = self._sit(commit, everyone, FIRST_LOOK, shift, level, 0)
            _, excess, *_ = self._best(commit, everyone, level)
            wanted = np.where(disturbed, own.ROUNDS, np.clip(own.ROUNDS - level[:, 0], own.FEWEST_ROUNDS, own.ROUNDS)).astype(int)
            suspects = disturbed | (excess > -own.SUSPECT)
            self.again += int(suspects.sum())
            for count in np.unique(wanted[suspects]):
                self._decide(commit, everyone[suspects & (wanted == count)], int(count), shift, level)
            self.n[:, commit + 1] = self.n[:, commit] + level[:, 0]
            self.y[:, commit + 1] = self.y[:, commit] + level[:, 0] * level[:, 1]
        return self

    def _draw(self, commit: int, which: Array, count: int, shift: Array) -> tuple[Array, Array]:
        head, anchor = self.source.processes(which, count)
        ratios = head - anchor + shift[which][:, None]
        if self.log is not None:
            self.log.append((commit, which, ratios))
        return ratios.mean(1), ratios.var(1, ddof=1)

    def _begin(self, commit: int, which: Array, shift: Array) -> None:
        """Collect the first sittings, and judge them together."""
        self.early.append(self._draw(commit, which, FIRST_LOOK, shift))
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
        mean, variance = self._draw(commit, which, count, shift)
        limits = _by_df(self._df(which), lambda each: [scatter.largest_ratio(count - 1, each)])[:, 0]
        disturbed = variance > self._variance(which) * limits
        self.sat[which] += 1
        self.bad[which] += disturbed
        good, mean, variance = which[~disturbed], mean[~disturbed], variance[~disturbed]
        self.df[good] += count - 1
        self.total[good] += variance * (count - 1)
        self._step(good, mean, count)
        old, total = level[good, 0], level[good, 0] + count
        new_mean = (old * level[good, 1] + count * mean) / total
        between = old * (level[good, 1] - new_mean) ** 2 + count * (mean - new_mean) ** 2
        level[good, 2] += variance * (count - 1) + np.where(old > 0, between, 0.0)
        level[good, 0], level[good, 1] = total, new_mean
        level[good, 4 + 2 * sitting], level[good, 5 + 2 * sitting] = mean, count
        return disturbed

    def _step(self, which: Array, mean: Array, count: int) -> None:
        before = self.before[which]
        use = ~np.isnan(before[:, 0])
        with np.errstate(invalid="ignore"):
            step = (mean - before[:, 0]) ** 2 / (self._variance(which) * (1 / before[:, 1] + 1 / count))
        self.steps[which] += use
        self.squares[which] += np.where(use, np.minimum(scatter.CLIP, step), 0.0)
        self.before[which] = np.stack([mean, np.full(len(which), count)], 1)

    def _best(self, commit: int, which: Array, level: Array) -> tuple[Array, Array, Array, Array]:
        """Window, excess, sign and mean before of the best window."""
        n, steps = level[which, 0], np.maximum(1, self.steps[which])
        found = self.squares[which] / steps / scatter.CLIPPED_MEAN
        factor = np.where((self.steps[which] > 0) & (found > 1 + 2.33 * np.sqrt(3 / steps)), found, 1.0)
        variance = self._variance(which)
        limits = _by_df(self._df(which), lambda df: [limit for _, limit in own._limits(self.rate, df)])  # noqa: SLF001
        expected = np.array([0.0, *(scatter.largest_sum(k) for k in range(1, 40))])[np.maximum(0, n - 1).astype(int)]
        allowance = np.sqrt(np.maximum(0.0, level[which, 2] / variance - expected) / 3.0) * (n > 1)
        often = (self.bad[which] >= scatter.FEW) & (self.bad[which] > scatter.OFTEN * self.sat[which])
        allowance = allowance + scatter.UNNOTICED * often
        best = [np.zeros(len(which), int), np.full(len(which), -np.inf), np.ones(len(which)), np.zeros(len(which))]
        for index, window in enumerate(own.WINDOWS):
            at, start = commit + 1 - window, self.start[which]
            if at <= 0:
                break
            before = self.n[which, at] - self.n[which, start]
            rounds = self.n[which, commit] - self.n[which, at] + n
            with np.errstate(all="ignore"):
                mean_before = (self.y[which, at] - self.y[which, start]) / before
                change = (self.y[which, commit] - self.y[which, at] + n * level[which, 1]) / rounds - mean_before
                size = np.abs(change) / np.sqrt(variance * factor * (1 / rounds + 1 / before))
                size = np.maximum(0.0, size - allowance * np.sqrt(n / rounds)) - limits[:, index]
            better = (at > start) & (before > 0) & (rounds > 0) & (n > 0) & (size > best[1])
            for place, value in enumerate((window, size, np.sign(change), mean_before)):
                best[place] = np.where(better, value, best[place])
        return tuple(best)  # type: ignore[return-value]

    def _decide(self, commit: int, which: Array, count: int, shift: Array, level: Array) -> None:
        self._sit(commit, which, count, shift, level, 1)
        window, excess, sign, before = self._best(commit, which, level)
        agrees = np.ones(len(which), bool)
        for sitting in (4, 6):
            rounds = level[which, sitting + 1]
            bound = own.EACH_SITTING * np.sqrt(self._variance(which) / np.maximum(1, rounds))
            agrees &= (rounds == 0) | (sign * (level[which, sitting] - before) > bound)
        hits = (excess > 0) & (level[which, 0] >= own.ROUNDS) & agrees
        for series, width, slower in zip(which[hits], window[hits], sign[hits] > 0, strict=True):
            self.start[series] = commit + 1 - width
            self.found.append((int(series), commit, bool(slower), int(commit + 1 - width)))

    def _variance(self, which: Array) -> Array:
        return self.total[which] / self.df[which]

    def _df(self, which: Array) -> Array:
        df = np.minimum(scatter.MAX_DF, self.df[which].astype(int))
        return np.where(df < 50, df, np.where(df < 500, df - df % 25, df - df % 250))


def _by_df(df: Array, value: Callable[[int], list[float]]) -> Array:
    unique, inverse = np.unique(df, return_inverse=True)
    return np.array([value(int(each)) for each in unique], float)[inverse]


@dataclass(frozen=True)
class Sitting:
    """A sitting as the store has it."""

    log_ratio: float
    standard_error: float
    df: float
    rounds: int
    code: str
    link_error: float = 0.0


def sitting(ratios: Array, code: str) -> Sitting:
    error = math.sqrt(ratios.var(ddof=1) / len(ratios))
    return Sitting(float(ratios.mean()), error, len(ratios) - 1.0, len(ratios), code)


def replayed(batch: Batch, series: int) -> list[tuple[int, int, bool, int]]:
    """Run the tool's own detector on the rounds that the batch drew for one series."""
    detector, found, starts = own.Detector(batch.rate), [], []
    for commit, which, ratios in batch.log or ():
        for place in np.flatnonzero(which == series):
            starts.append(commit)
            finding = detector.add(sitting(ratios[place], str(commit)))
            if finding is not None and finding.kind is not own.Kind.MEASURE_AGAIN:
                found.append((series, commit, finding.kind is own.Kind.SLOWER, starts[finding.first]))
    return found


@cache
def rate(series: int = SUITE) -> float:
    return own.rate_of(series)
