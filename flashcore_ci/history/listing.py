"""Runs and points as lines for a terminal. The store holds no control characters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from flashcore_ci.model.history import Point, RunRow, Series, StoredVerdict
from flashcore_ci.model.verdict import Outcome

SHORT = 12


def run_line(run: RunRow) -> str:
    """Write a run in one line."""
    day = datetime.fromtimestamp(run.collected_at, UTC).strftime("%Y-%m-%d %H:%M")
    machine = run.machine.name if run.machine else "no GPU"
    commit = run.commit.sha[:SHORT] + ("+" if run.dirty else "")
    return f"{run.digest[:SHORT]}  {day}  {commit or 'no commit':13}  {run.outcome:12}  {run.standing:18}  {run.suite}, {machine}"


def run_lines(run: RunRow, points: Sequence[tuple[Series, Point]], verdicts: Sequence[StoredVerdict]) -> Iterator[str]:
    """Write a run with its workloads, and the verdicts that are not a PASS."""
    yield run_line(run)
    yield run.headline
    yield f"bundle {run.bundle or 'unknown'}, {run.checks} checks, driver {run.driver or 'unknown'}"
    yield ", ".join(f"{name} {version}" for name, version in run.tools)
    yield from (f"  {series.workload:40} {point_text(series, point)}" for series, point in points)
    yield from (f"  {v.outcome} {v.gate} on {v.target}: {v.code}: {v.message}" for v in verdicts)


def point_text(series: Series, point: Point) -> str:
    """Write the value that decides, the ratio to the anchor, and the outcome."""
    value = getattr(point, series.scale)
    unit = "ms" if series.scale == "ms" else "Mcycle"
    text = "not timed" if value is None else f"{value:.5g} {unit}"
    ratio = point.anchored
    change = "" if ratio is None else f", {100 * math.expm1(ratio.log_ratio):+.2f} % to the anchor"
    return f"{text}{change}{'' if point.outcome is Outcome.PASS else f', {point.outcome}'}"
