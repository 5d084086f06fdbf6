"""Turn what the worker measured of the outputs into observations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from flashcore_ci.collect import child, isolation
from flashcore_ci.collect.child import JobSpec
from flashcore_ci.collect.isolation import MakeJob, WorkloadResult, Workloads
from flashcore_ci.collect.session import Session
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Observation
from flashcore_ci.model.metrics import GROUP_METRICS, METRICS
from flashcore_ci.model.reading import Histogram, Missing, Reading, measured
from flashcore_ci.model.suite import Kind, Workload

AT_ONCE = 4
MAX_PROCESSES = 3  # a workload keeps the host busier than the GPU, and a busy GPU does not change its readings
MIN_WORKLOADS = 64  # per process, because a process takes seconds to start
GROUP = 8  # neighbours often have one size: groups keep the largest from running at the same time
NAMES = tuple(name for name, metric in METRICS.items() if metric.kind is Kind.CORRECTNESS)


def collect(session: Session) -> tuple[Observation, ...]:
    """Return one observation per workload."""
    workloads = session.workloads(Kind.CORRECTNESS)
    if not workloads:
        return ()
    entries = {workload.id: session.entries(workload) for workload in workloads}
    options = {"repeats": session.plan.protocol.repeats, "entries": entries}

    def make_job(workloads: tuple[Workload, ...]) -> JobSpec:
        return session.job("correctness", "correctness", workloads, seconds=session.seconds(Kind.CORRECTNESS), options=options)

    results = run_in_parallel(workloads, make_job, is_healthy=session.is_healthy)
    return tuple(_observe(session, workload, results[workload.id]) for workload in workloads)


def run_in_parallel(workloads: Workloads, make_job: MakeJob, *, is_healthy: Callable[[], bool]) -> dict[str, WorkloadResult]:
    """Use up to three processes. Those that ran out of memory run again afterwards."""
    count = max(1, min(MAX_PROCESSES, len(workloads) // MIN_WORKLOADS))
    at_once = max(1, AT_ONCE // count)

    def run(part: tuple[Workload, ...]) -> dict[str, WorkloadResult]:
        return isolation.run_isolated(part, make_job, is_healthy=is_healthy, at_once=at_once)

    groups = [workloads[first : first + GROUP] for first in range(0, len(workloads), GROUP)]
    parts = [tuple(workload for group in groups[number::count] for workload in group) for number in range(count)]
    with ThreadPoolExecutor(count) as pool:
        results = {name: result for part in pool.map(run, parts) for name, result in part.items()}
    failures = {name: result.missing.code for name, result in results.items() if result.missing is not None}
    starved = tuple(workload for workload in workloads if failures.get(workload.id) is Code.OUT_OF_MEMORY)
    if not starved or count == 1:
        return results
    return results | {name: _note_second_run(result) for name, result in run(starved).items()}


def _note_second_run(result: WorkloadResult) -> WorkloadResult:
    """Leave a trace of leaks that starve their neighbours."""
    notes = (*result.values.get("notes", ()), "ran out of memory next to other processes, and ran again after them")
    return replace(result, values={**result.values, "notes": notes})


def _observe(session: Session, workload: Workload, result: WorkloadResult) -> Observation:
    values = result.values
    process_seconds = 0.0 if result.completed is None or not result.missing else round(result.completed.seconds, 3)
    return session.observation(
        Kind.CORRECTNESS,
        workload,
        readings=() if result.missing else readings(values.get("readings", {})),
        histograms=() if result.missing else tuple(histograms(values.get("histograms"))),
        notes=tuple(str(note) for note in values.get("notes", ())),
        missing=result.missing,
        seconds=float(values.get("seconds", process_seconds)),
        isolation=child.isolation_of([values]),
    )


def histograms(given: Any) -> Iterator[tuple[str, Histogram]]:
    """Yield the worker's histograms of errors that are well-formed."""
    for name, fields in given.items() if isinstance(given, dict) else ():
        with contextlib.suppress(TypeError, ValueError, KeyError):
            numbers = {key: int(fields[key]) for key in ("first", "zeros", "not_finite")}
            yield name, Histogram(counts=tuple(int(count) for count in fields["counts"]), unit="abs", **numbers)


def readings(given: Mapping[str, float | str]) -> tuple[tuple[str, Reading], ...]:
    """Return the worker's numbers with their units. NaN and infinity are Missing."""
    return tuple((name, _reading(name, given)) for name in NAMES if name not in GROUP_METRICS or name in given)


def _reading(name: str, given: Mapping[str, float | str]) -> Reading:
    if name not in given:
        return Missing(code=Code.METRIC_ABSENT, message=f"the worker wrote no {name}")
    try:
        return measured(float(given[name]), METRICS[name].unit)
    except (TypeError, ValueError):
        return Missing(code=Code.INVALID_RESULT, message=f"the worker wrote {given[name]!r:.40} as {name}")
