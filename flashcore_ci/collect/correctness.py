"""Correctness: what the worker read of each workload's outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from flashcore_ci.collect import isolation
from flashcore_ci.collect.child import Order
from flashcore_ci.collect.isolation import Orders, Outcome
from flashcore_ci.collect.machine import Machine
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.metrics import METRICS
from flashcore_ci.model.reading import Histogram, Missing, Reading, measured
from flashcore_ci.model.suite import Kind, Workload

TOGETHER = 4
SIDE_BY_SIDE = 3  # processes: a workload keeps the host busier than the GPU, and its readings do not depend on who else computes
WORTH_A_PROCESS = 64  # workloads: a process takes seconds to start
HAND = 8  # neighbours, often of one size, that are dealt together: so the largest are not all at work at once
NAMES = tuple(name for name, metric in METRICS.items() if metric.kind is Kind.CORRECTNESS)


def collect(machine: Machine) -> tuple[Observation, ...]:
    """One observation for every workload that wants it."""
    session = machine.session
    workloads = session.workloads(Kind.CORRECTNESS)
    if not workloads:
        return ()
    entries = {workload.id: session.entries(workload) for workload in workloads}
    options = {"repeats": session.plan.protocol.repeats, "entries": entries}

    def orders(some: tuple[Workload, ...]) -> Order:
        return machine.order("correctness", "correctness", some, seconds=session.seconds(Kind.CORRECTNESS), options=options)

    outcomes = side_by_side(workloads, orders, healthy=machine.healthy)
    return tuple(_observe(machine, workload, outcomes[workload.id]) for workload in workloads)


def side_by_side(workloads: tuple[Workload, ...], orders: Orders, *, healthy: Callable[[], bool]) -> dict[str, Outcome]:
    """One outcome for every workload, as ``apart.all_of`` gives them; many are dealt to processes that run at once.

    What found no memory beside the others is asked again after them.
    """
    count = max(1, min(SIDE_BY_SIDE, len(workloads) // WORTH_A_PROCESS))
    together = max(1, TOGETHER // count)

    def all_of(some: tuple[Workload, ...]) -> dict[str, Outcome]:
        return isolation.all_of(some, orders, healthy=healthy, together=together)

    hands = [workloads[first : first + HAND] for first in range(0, len(workloads), HAND)]
    dealt = [tuple(workload for hand in hands[number::count] for workload in hand) for number in range(count)]
    with ThreadPoolExecutor(count) as pool:
        outcomes = {name: outcome for some in pool.map(all_of, dealt) for name, outcome in some.items()}
    crowded = tuple(workload for workload in workloads if _found_no_memory(outcomes[workload.id]))
    if not crowded or count == 1:
        return outcomes
    return outcomes | {name: _asked_again(outcome) for name, outcome in all_of(crowded).items()}


def _asked_again(outcome: Outcome) -> Outcome:
    """A leak that starves its neighbours would else leave no trace in a report."""
    notes = (*outcome.values.get("notes", ()), "found no memory beside other processes, and was asked again after them")
    return replace(outcome, values={**outcome.values, "notes": notes})


def _found_no_memory(outcome: Outcome) -> bool:
    return outcome.missing is not None and outcome.missing.code is Code.OUT_OF_MEMORY


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
