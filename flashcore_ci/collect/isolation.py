"""Run workloads together, and alone only after a failure."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from flashcore_ci.adapters import host
from flashcore_ci.adapters.process import Completed
from flashcore_ci.collect import child
from flashcore_ci.collect.child import JobResult, JobSpec
from flashcore_ci.collect.start_signal import StartSignal
from flashcore_ci.model.codes import Code
from flashcore_ci.model.reading import Missing
from flashcore_ci.model.suite import Workload

Workloads = tuple[Workload, ...]
MakeJob = Callable[[Workloads], JobSpec]
T = TypeVar("T")
AT_ONCE = max(4, min(12, host.cpus() // 4))
"""Processes at a time, where the GPU need not be free. Each keeps a core busy for seconds, and takes GPU memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadResult:
    """The worker's ``values``, or why they are missing. ``began``: it was reached."""

    values: dict[str, Any]
    missing: Missing | None
    completed: Completed | None
    result_file: Path
    began: bool = True


def run_together_then_alone(
    workloads: Workloads,
    *,
    together: Callable[[Workloads], dict[str, T]],
    again: Callable[[dict[str, T]], Workloads],
    alone: Callable[[Workload], T],
    at_once: int,
) -> tuple[dict[str, T], dict[str, T]]:
    """Run all workloads together, then those that ``again`` picks alone."""
    results = together(workloads)
    rest = again(results) if len(workloads) > 1 else ()
    with ThreadPoolExecutor(at_once) as pool:
        return results, dict(zip([workload.id for workload in rest], pool.map(alone, rest), strict=True))


def run_isolated(
    workloads: Workloads,
    make_job: MakeJob,
    *,
    is_healthy: Callable[[], bool],
    at_once: int,
    start: StartSignal | None = None,
    room: AbstractContextManager[Any] | None = None,
) -> dict[str, WorkloadResult]:
    """Return one result per workload. One that kills the process hides no other. ``room`` limits the processes of several calls.

    A process that stayed had measured all. If it dies at its end, others measure or end at that time, so nothing is run again.
    """
    room = room or nullcontext()

    def together(workloads: Workloads) -> dict[str, WorkloadResult]:
        return _unless_unhealthy(_results(workloads, child.run(make_job(workloads), start)), is_healthy)

    def again(results: dict[str, WorkloadResult]) -> Workloads:
        lost = tuple(workload for workload in workloads if not results[workload.id].began and _died(results[workload.id]))
        return () if lost and start is not None and start.stays() else lost

    def alone(workload: Workload) -> WorkloadResult:
        with room:
            return run_once(make_job((workload,)))[workload.id]

    first, second = run_together_then_alone(workloads, together=together, again=again, alone=alone, at_once=at_once)
    return first | _unless_unhealthy(second, is_healthy)


def run_once(spec: JobSpec) -> dict[str, WorkloadResult]:
    """Run one process."""
    return _results(spec.workloads, child.run(spec))


def _results(workloads: Workloads, result: JobResult) -> dict[str, WorkloadResult]:
    failure = result.failure or Missing(code=Code.INVALID_RESULT, message="the worker skipped this workload")
    results = {}
    for workload in workloads:
        outcome = result.outcomes.get(workload.id)
        in_flight = workload.id == result.in_flight and result.failure is not None
        known = None if in_flight else outcome
        results[workload.id] = WorkloadResult(
            values={} if known is None else known,
            missing=failure if known is None else child.missing_from(known),
            completed=result.completed,
            result_file=result.result_file,
            began=outcome is not None or in_flight,
        )
    return results


def _died(result: WorkloadResult) -> bool:
    return result.missing is not None and result.missing.code in child.DEATHS


def _unless_unhealthy(results: dict[str, WorkloadResult], is_healthy: Callable[[], bool]) -> dict[str, WorkloadResult]:
    """Report the machine instead if a known-good kernel fails too."""
    dead = {name: result.missing for name, result in results.items() if result.missing is not None and _died(result)}
    if not dead or is_healthy():
        return results
    messages = {name: f"a known-good kernel failed too, after: {missing.message}" for name, missing in dead.items()}
    found = {name: Missing(code=Code.DEVICE_UNHEALTHY, message=message) for name, message in messages.items()}
    unhealthy = {name: child.unless_stopped(missing) for name, missing in found.items()}
    return results | {name: replace(results[name], missing=missing) for name, missing in unhealthy.items()}
