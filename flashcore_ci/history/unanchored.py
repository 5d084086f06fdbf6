"""Find steps in a series without an anchor, where only absolute numbers are known.

The rule of Mozilla's Perfherder: at every point the 12 values from there on are compared with the 12 to 24 before it by Student's t, in
which a value counts the less the further away it is. A change is a local maximum of t above 7.

Source: mozilla/treeherder, ``treeherder/perfalert``, and bug 879903. This is another implementation of the same rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FORWARD = 12
BACK = (12, 24)
LIMIT = 7.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change at the index ``first``: the difference of the two weighted means, with its standard error."""

    first: int
    change: float
    standard_error: float
    t: float


def changes(values: Sequence[float]) -> tuple[Change, ...]:
    """Return every change, in order. ValueError for a value that is not finite."""
    if not all(map(math.isfinite, values)):
        raise ValueError("a value is not finite")
    found: list[Change | None] = [None]
    quiet = 0
    for index in range(1, len(values)):
        width = min(max(quiet, BACK[0]), BACK[1])
        before, after = values[max(0, index - width) : index], values[index : index + FORWARD]
        compared = _compare(index, before[::-1], after)
        found.append(compared)
        quiet = 0 if compared.t > LIMIT else quiet + 1
    peaks = (_peak(found, index) for index in range(BACK[0], len(values) - FORWARD))
    return tuple(peak for peak in peaks if peak is not None)


def _peak(found: Sequence[Change | None], index: int) -> Change | None:
    """Return the change at ``index`` if neither neighbour has a larger t."""
    here = found[index] if index < len(found) else None
    near = [each.t for each in (found[index - 1], *found[index + 1 : index + 2]) if each is not None]
    return here if here is not None and here.t > LIMIT and here.t >= max(near, default=0.0) else None


def _compare(index: int, before: Sequence[float], after: Sequence[float]) -> Change:
    (old, old_error), (new, new_error) = _weighted(before), _weighted(after)
    change, error = new - old, math.sqrt(old_error + new_error)
    t = 0.0 if change == 0.0 else math.inf if error == 0.0 else abs(change) / error
    return Change(first=index, change=change, standard_error=error, t=t)


def _weighted(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean with weights n, n - 1, ..., 1 over n, and the variance of a mean of n values."""
    count = len(values)
    mean = math.fsum((count - place) * value for place, value in enumerate(values)) / (count * (count + 1) / 2)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1) if count > 1 else 0.0
    return mean, variance / count
