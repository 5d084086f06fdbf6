"""Turn what the worker measured of the outputs into observations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import BoundedSemaphore
from typing import Any

from flashcore_ci.adapters import host
from flashcore_ci.bounded.values import shorten
from flashcore_ci.collect import child, isolation
from flashcore_ci.collect.child import JobSpec
from flashcore_ci.collect.isolation import MakeJob, WorkloadResult, Workloads
from flashcore_ci.collect.session import Session
from flashcore_ci.model.codes import Code
from flashcore_ci.model.evidence import Finding, Observation
from flashcore_ci.model.metrics import CASE_METRICS, METRICS, OPTIONAL_METRICS
from flashcore_ci.model.reading import Histogram, Missing, Reading, measured
from flashcore_ci.model.subject import Problem
from flashcore_ci.model.suite import Kind, Workload

AT_ONCE = 4
MAX_PROCESSES = 12  # a workload keeps the host busier than the GPU, and a busy GPU does not change its readings
MIN_WORKLOADS = 24  # per process, because a process takes seconds to start
PROCESS_BYTES = 8 << 30  # of GPU memory for each process
LARGE_BYTES = 1 << 27  # that a workload moves. Only some processes have such workloads, or else they would run out of memory
MAX_LARGE, LARGE_COST = 5, 4
LARGE_PROCESS_BYTES = 24 << 30  # of GPU memory for each process with such workloads
MAX_SUBJECTS, CPUS_PER_SUBJECT = 4, 8
GROUP = 4  # neighbours often have one size: groups keep them from running at the same time
MAX_WITH_CASES, CASES_BYTES = 8, 16 << 30  # processes with test cases, and the GPU memory of each
PACKAGE = "package"  # the parameter with the package under test: two of one name cannot share a process
NAMES = tuple(name for name, metric in METRICS.items() if metric.kind is Kind.CORRECTNESS)


def collect(session: Session) -> tuple[Observation, ...]:
    """Return one observation per workload."""
    workloads = session.workloads(Kind.CORRECTNESS)
    if not workloads:
        return ()
    entries = {workload.id: session.entries(workload) for workload in workloads}

    def make_job(workloads: tuple[Workload, ...]) -> JobSpec:
        options = {"repeats": session.plan.protocol.repeats, "entries": entries, "cores": host.cpus() // len(parts)}
        options["manifest"] = session.plan.manifest
        return session.job("correctness", "correctness", workloads, seconds=session.seconds(Kind.CORRECTNESS), options=options)

    processes = min(MAX_PROCESSES, host.cpus() * 3 // 4, session.memory // PROCESS_BYTES, len(workloads) // MIN_WORKLOADS)
    large = {workload.id for workload in workloads if not 0 < session.problem(workload).bytes < LARGE_BYTES}
    with_cases = tuple(workload for workload in workloads if has_cases(session.problem(workload)))
    rest = tuple(workload for workload in workloads if workload not in with_cases)
    many = max(1, min(MAX_WITH_CASES, host.cpus() // 2, session.memory // CASES_BYTES))
    by_subject = _by_subject(session, rest) if processes <= 1 else []
    few = max(1, min(MAX_LARGE, session.memory // LARGE_PROCESS_BYTES))
    parts = [*(by_subject or divide(rest, large, max(1, processes), few)), *divide_cases(with_cases, many)]
    results = run_in_parallel(parts, make_job, is_healthy=session.is_healthy)
    return tuple(_observe(session, workload, results[workload.id]) for workload in workloads)


def _by_subject(session: Session, workloads: Workloads) -> list[Workloads]:
    """Give each candidate's workloads a process, if there are cores for the start of all. It takes longer than their work."""
    names = list(dict.fromkeys(workload.subject for workload in workloads))
    room = min(MAX_SUBJECTS, host.cpus() // CPUS_PER_SUBJECT, session.memory // PROCESS_BYTES)
    if len(names) > room or not all(session.plan.description(name).candidate for name in names):
        return []
    return [tuple(workload for workload in workloads if workload.subject == name) for name in names]


def has_cases(problem: Problem) -> bool:
    """Return whether a workload runs test cases, whose work is not counted."""
    return bool(problem.entries) and not problem.flops and not problem.bytes


def divide(workloads: Workloads, large: Collection[str], count: int, few: int) -> list[Workloads]:
    """Deal groups of neighbours to ``count`` processes of about equal work, and ``large`` ones to ``few`` of these."""
    parts: list[list[Workload]] = [[] for _ in range(count)]
    work = [0] * count
    groups = [workloads[first : first + GROUP] for first in range(0, len(workloads), GROUP)]
    for are_large, number in ((True, min(count, few)), (False, count)):
        for group in groups:
            some = [workload for workload in group if (workload.id in large) is are_large]
            place = min(range(number), key=work.__getitem__)
            parts[place] += some
            work[place] += len(some) * (LARGE_COST if are_large else 1)
    return [tuple(part) for part in parts if part]


def divide_cases(workloads: Workloads, count: int) -> Iterator[Workloads]:
    """Deal workloads with test cases to about ``count`` processes. Each has one subject and one value of the parameter ``package``."""
    owners = {workload.id: (workload.subject, dict(workload.params).get(PACKAGE)) for workload in workloads}
    for owner in dict.fromkeys(owners.values()):
        own = tuple(workload for workload in workloads if owners[workload.id] == owner)
        share = min(len(own), max(1, count * len(own) // len(workloads)))
        yield from (own[i::share] for i in range(share))


def run_in_parallel(
    parts: Sequence[Workloads], make_job: MakeJob, *, is_healthy: Callable[[], bool]
) -> dict[str, WorkloadResult]:
    """Run one process per part. What ran out of memory runs again afterwards."""
    workloads, count = tuple(workload for part in parts for workload in part), len(parts)
    room = BoundedSemaphore(AT_ONCE)  # a part of kernels that hang takes a time limit for each, and the others need no room then

    def run(part: tuple[Workload, ...]) -> dict[str, WorkloadResult]:
        return isolation.run_isolated(part, make_job, is_healthy=is_healthy, at_once=AT_ONCE, room=room)

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
        findings=tuple(Finding(tool="cases", message=shorten(str(text))) for text in values.get("cases", ())),
        histograms=() if result.missing else tuple(histograms(values.get("histograms"))),
        notes=tuple(shorten(str(note)) for note in values.get("notes", ())),
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
    expected = CASE_METRICS if not CASE_METRICS.isdisjoint(given) else frozenset(NAMES) - OPTIONAL_METRICS
    wanted = (name for name in NAMES if name in given or name in expected)
    return tuple((name, _reading(name, given)) for name in wanted)


def _reading(name: str, given: Mapping[str, float | str]) -> Reading:
    if name not in given:
        return Missing(code=Code.METRIC_ABSENT, message=f"the worker wrote no {name}")
    try:
        return measured(float(given[name]), METRICS[name].unit)
    except (TypeError, ValueError):
        return Missing(code=Code.INVALID_RESULT, message=f"the worker wrote {given[name]!r:.40} as {name}")
