"""Correctness: what the worker read of each workload's outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from flashcore_ci.collect import apart
from flashcore_ci.collect.apart import Outcome
from flashcore_ci.collect.machine import Machine
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.metrics import METRICS
from flashcore_ci.model.reading import Histogram, Missing, Reading, measured
from flashcore_ci.model.suite import Kind, Workload

TOGETHER = 4
NAMES = tuple(name for name, metric in METRICS.items() if metric.kind is Kind.CORRECTNESS)


def collect(machine: Machine) -> tuple[Observation, ...]:
    """One observation for every workload that wants it."""
    session = machine.session
    workloads = session.workloads(Kind.CORRECTNESS)
    if not workloads:
        return ()
    entries = {workload.id: session.entries(workload) for workload in workloads}
    options = {"repeats": session.plan.protocol.repeats, "entries": entries}
    outcomes = apart.all_of(
        workloads,
        lambda some: machine.order(
            "correctness", "correctness", some, seconds=session.seconds(Kind.CORRECTNESS), options=options
        ),
        healthy=machine.healthy,
        together=TOGETHER,
    )
    return tuple(_observe(machine, workload, outcomes[workload.id]) for workload in workloads)


def _observe(machine: Machine, workload: Workload, outcome: Outcome) -> Observation:
    values = outcome.values
    lived = 0.0 if outcome.completed is None or not outcome.missing else round(outcome.completed.seconds, 3)
    return machine.session.observation(
        Kind.CORRECTNESS,
        workload,
        readings=() if outcome.missing else readings(values.get("readings", {})),
        histograms=() if outcome.missing else tuple(histograms(values.get("histograms"))),
        notes=tuple(str(note) for note in values.get("notes", ())),
        missing=outcome.missing,
        seconds=float(values.get("seconds", lived)),
    )


def histograms(said: Any) -> Iterator[tuple[str, Histogram]]:
    """The worker's histograms of errors; nothing judges them, so that one which is none is left out."""
    for name, given in said.items() if isinstance(said, dict) else ():
        with contextlib.suppress(TypeError, ValueError, KeyError):
            numbers = {key: int(given[key]) for key in ("first", "zeros", "not_finite")}
            yield name, Histogram(counts=tuple(int(count) for count in given["counts"]), unit="abs", **numbers)


def readings(said: Mapping[str, float | str]) -> tuple[tuple[str, Reading], ...]:
    """The worker's numbers with their units; NaN and infinity, which it spells out, are ``not-finite``."""
    return tuple((name, _reading(name, said)) for name in NAMES)


def _reading(name: str, said: Mapping[str, float | str]) -> Reading:
    if name not in said:
        return Missing(code=Code.METRIC_ABSENT, message=f"the worker gave no {name}")
    try:
        return measured(float(said[name]), METRICS[name].unit)
    except (TypeError, ValueError):
        return Missing(code=Code.INVALID_RESULT, message=f"the worker gave {said[name]!r:.40} as {name}")
