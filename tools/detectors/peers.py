"""Other detectors, each a function from absolute numbers (one per commit) to the commits at which it reports a change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import ruptures
from otava.analysis import compute_change_points

from flashcore_ci.history import unanchored

Array = np.ndarray


def otava(values: Array) -> list[int]:
    """Apache Otava with its defaults: windows of 50, p = 0.001, any magnitude."""
    return [point.index for point in compute_change_points([float(value) for value in values])[0]]


def pelt(values: Array) -> list[int]:
    """PELT of ruptures, with a change of mean and the penalty 3 ln n. The scatter is that of successive differences."""
    scatter = 1.4826 * float(np.median(np.abs(np.diff(values)))) / np.sqrt(2.0)
    found = ruptures.Pelt(model="l2", min_size=2, jump=1).fit(values / scatter).predict(3.0 * np.log(len(values)))
    return [int(index) for index in found[:-1]]


def mozilla(values: Array) -> list[int]:
    """Perfherder: t above 7 and a change of 2 %."""
    return [each.first for each in unanchored.changes(values.tolist()) if abs(each.change) >= 0.02 * values[each.first - 1]]


def fallback(values: Array) -> list[int]:
    """Apply what this tool does in a series without an anchor: t above 7, of any size."""
    return [each.first for each in unanchored.changes(values.tolist())]


def fixed(percent: float) -> Callable[[Array], list[int]]:
    """Return the rule of dashboards: slower than the commit before by this much."""
    return lambda values: [int(i) + 1 for i in np.flatnonzero(values[1:] > (1 + percent / 100) * values[:-1])]


def rustc_perf(values: Array) -> list[int]:
    """Compare each change with the third quartile plus 3 interquartile ranges of the last 100 absolute changes."""
    changes, found = np.abs(np.diff(values)) / values[:-1], []
    for index in range(30, len(changes)):
        first, third = np.quantile(changes[max(0, index - 100) : index], [0.25, 0.75])
        if changes[index] > third + 3.0 * (third - first):
            found.append(index + 1)
    return found


PEERS: dict[str, Callable[[Array], list[int]]] = {
    "Otava 0.8, defaults": otava,
    "ruptures 1.1, PELT, 3 ln n": pelt,
    "Mozilla, t > 7 and 2 %": mozilla,
    "fixed threshold, 5 %": fixed(5.0),
    "fixed threshold, 2 %": fixed(2.0),
    "rustc-perf, Q3 + 3 IQR": rustc_perf,
    "ours, series without an anchor": fallback,
}
