"""The tool's own detector on the rounds that ``histories.Batch`` drew."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from histories import Array, Batch

from flashcore_ci.history import detection as own


@dataclass(frozen=True)
class Sitting:
    """A sitting as the store has it."""

    log_ratio: float
    standard_error: float
    df: float
    rounds: int
    code: str
    parent: str
    step: float
    step_error: float
    far: float
    step_far: float
    link_error: float = 0.0


def sitting(ratios: Array, steps: Array, commit: int) -> Sitting:
    (mean, error), (step, step_error) = (
        (float(each.mean()), math.sqrt(each.var(ddof=1) / len(each))) for each in (ratios, steps)
    )
    far, step_far = (float(each[np.abs(each - each.mean()).argmax()]) for each in (ratios, steps))
    return Sitting(mean, error, len(ratios) - 1.0, len(ratios), str(commit), str(commit - 1), step, step_error, far, step_far)


def replayed(batch: Batch, series: int) -> list[tuple[int, int, bool, int]]:
    """Run the tool's own detector on the rounds that the batch drew for one series."""
    detector, found, starts = own.Detector(batch.rate), [], []
    for commit, which, ratios, steps in batch.log or ():
        for place in np.flatnonzero(which == series):
            starts.append(commit)
            finding = detector.add(sitting(ratios[place], steps[place], commit))
            if finding is not None and finding.kind is not own.Kind.MEASURE_AGAIN:
                found.append((series, commit, finding.kind is own.Kind.SLOWER, starts[finding.first]))
    return found
